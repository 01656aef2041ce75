"""Makes the page that says what each backend can obey, from the table by which requests are refused."""

from collections.abc import Iterable, Iterator, Sequence

from conch_contracts.capabilities import CAPABILITIES, Feature, Level, Support
from conch_contracts.openai.audio import TranscriptionRequest, TranslationRequest
from conch_contracts.records import Dialect
from conch_contracts.speech_capabilities import SPEECH_CAPABILITIES, SpeechFeature
from conch_gateway.requests.refusals.of_speech import OF_SPEECH

_INTRODUCTION = """# What each backend can do

[All pages](README.md) · [runtimes](runtimes.md) · [using the API](using-the-api.md)

<!-- Made by `make generate` from conch_contracts.capabilities, conch_contracts.speech_capabilities and
hack/generate/backends_page.py; edit them there. -->

A language model's engines speak one of four dialects, those of a model of speech [one of two](#speech). What a dialect
cannot obey is answered with a 400 that names the parameter and the reason below, before an engine is asked: `code` is
`unsupported_parameter`. Nothing is accepted and ignored.

| dialect | spoken by | prompts and answers |
|---|---|---|
| `tokens` | the `cpu` runtime; your own models of Triton's Python backend | ids and ids |
| `fastertransformer` | fastertransformer_backend | ids and ids |
| `tensorrtllm` | TensorRT-LLM's `tensorrt_llm` | ids and ids |
| `tensorrtllm` | `ensemble`, `tensorrt_llm_bls`, the LLM API's model (`backend: pytorch`) | text and text |
| `vllm` | Triton's vLLM backend | text and text |

Workers read the model's config from its server before the first request, and again after a failure. Only inputs that
the model declares are sent, under the name and in the type found there, so old and new versions work alike.
"""

_CELLS = """## Parameters

"If declared" means that the model's config must have the input named there; if it has not, the parameter is a 400 too.
TensorRT-LLM takes `embedding_bias` for exactly the ids that its engine was built with: `vocab_size` in the folder's
`config.json` must say the same number.
"""

_NOTES = """Pictures for embeddings, scores and rankings need the dialect `encoder`, an input `pixel_values` and an
output `image_embeds` ([a model of your own](runtimes.md#a-model-of-your-own)); else they are a 400.

## Text

An answer of ids is turned into text by the worker. Of an answer of text, each message holds either what is new or the
whole answer so far. `engine.external.textOutput`, or `engine.tensorrtllm.textOutput`,
says which: `Delta` or `Cumulative`. Without it

- `vllm` means `Delta`, and `Cumulative` where the model has the old output `TEXT`, whose text begins with the prompt;
- `tensorrtllm` means `Cumulative` for a model with `accumulate_tokens: true` and for the LLM API's model, else `Delta`.

`ensemble` decodes each message alone, so spaces and characters of several tokens get lost in it. Name `tensorrt_llm`
itself in `modelName`: it takes ids, which is exact and allows more parameters. The models of text around it leave
special tokens out, so thinking and calls of tools that are marked by one are not found in their answers.

A model of text tokenizes the prompt once more, so it must have the same tokenizer as the ModelDeployment. The prompt
is sent without the BOS that its tokenizer adds by itself. A prompt of ids, one that was cut, and
one whose `add_special_tokens` is not what it is without that parameter have no exact text: they are a 400.

## Ends and counts
"""

_ENDS = (
    ("", "`finish_reason`", "`usage.completion_tokens`", "when the client goes"),
    ("`tokens`", "the engine's", "ids are counted", "the engine stops at its next token"),
    ("`fastertransformer`", "from the ids and the limit", "ids are counted", "only some versions stop"),
    (
        "`tensorrtllm`, ids",
        "from the ids and the limit",
        "ids are counted",
        "the engine stops within `cancellation_check_period_ms`",
    ),
    (
        "`tensorrtllm`, text",
        "the engine's if declared, else from the count",
        "`num_output_tokens` if declared, else the tokenizer counts",
        "the engine stops within `cancellation_check_period_ms`",
    ),
    (
        "`vllm`",
        "the engine's if declared, else from the count",
        "`num_output_tokens` if declared, else the tokenizer counts",
        "the engine stops at its next token",
    ),
)

_COUNTS = """
The tokenizer counts what can be seen: the end-of-sequence token is not in its count. Stop strings are found by the
worker, which then cancels the request, so `stop_reason` is the string with every dialect. A model that is not decoupled
answers once: its tokens come all together, and neither a stop string nor a client that goes can end its work before.

What an engine had of a prompt in a cache is 0 with every dialect: `cached_tokens` of `usage.prompt_tokens_details` and
of a response's `input_tokens_details`, `cache_read_input_tokens` and `cache_creation_input_tokens` of a message. The
runtime and FasterTransformer keep no cache of prefixes. vLLM does, and its backend has no output that tells of it.
TensorRT-LLM does, and tells blocks at most (`kv_cache_reused_blocks`), of a size that it does not tell, so no tokens
are counted of them.
"""

_SPEECH = """## Speech

Models of kind Transcription speak one of two dialects; [transcribing speech](speech.md) says which engines do. A
`language` must be named with `whisper_bls`, unless the model knows one alone.
"""


_REFUSED_SPEECH = "Refused with either dialect, each with a 400 that says so:\n"


def backends_text() -> str:
    """Return the page as Markdown."""
    texts, sounds = CAPABILITIES, SPEECH_CAPABILITIES
    parameters = _rows(texts, ((one.params, [table[one] for table in texts.values()]) for one in Feature))
    of_speech = _rows(sounds, ((one.params, [table[one] for table in sounds.values()]) for one in SpeechFeature))
    return "\n".join(
        [
            _INTRODUCTION,
            _CELLS,
            *_table(list(parameters)),
            "",
            _NOTES,
            *_table(_ENDS),
            _COUNTS,
            _SPEECH,
            *_table(list(of_speech)),
            "",
            _REFUSED_SPEECH,
            *_table([("parameter", "why"), *_refused_of_speech()]),
            "",
        ]
    )


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    head, *rest = (f"| {' | '.join(row)} |" for row in rows)
    yield from (head, "|" + "---|" * len(rows[0]), *rest)


def _rows(
    dialects: Iterable[Dialect], features: Iterable[tuple[tuple[str, ...], Sequence[Support]]]
) -> Iterator[tuple[str, ...]]:
    yield "parameter", *(f"`{dialect}`" for dialect in dialects)
    for params, support in features:
        yield ", ".join(f"`{name}`" for name in params), *map(_cell, support)


def _refused_of_speech() -> Iterator[tuple[str, str]]:
    transcriptions, translations = OF_SPEECH[TranscriptionRequest], OF_SPEECH[TranslationRequest]
    for name, refused in sorted(transcriptions.items()):
        if refused == translations.get(name):
            yield f"`{name}`", refused.instead or "there is nothing like it here"
    for one, other, endpoint in (
        (transcriptions, translations, "transcription"),
        (translations, transcriptions, "translation"),
    ):
        for name, refused in sorted(one.items()):
            if refused != other.get(name):
                yield f"`{name}` of a {endpoint}", refused.instead


def _cell(support: Support) -> str:
    match support.level:
        case Level.NO:
            return f"no: {support.note}"
        case Level.DECLARED:
            return f"if declared: {support.note}"
        case _:
            return f"{support.level.value}; {support.note}" if support.note else support.level.value
