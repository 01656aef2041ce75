"""What each dialect can obey, as one table: the gateway and the workers refuse by it, and docs/backends.md shows it.

A feature that a dialect lacks is a 400 that names the parameter and gives the reason that stands here. Where it depends
on the tensors that a model declares, the worker decides when it has read the model's config.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from conch_contracts.records import Dialect


class Level(Enum):
    """Who obeys, if anyone does."""

    ENGINE = "yes"
    WORKER = "yes, by the worker"
    DECLARED = "if declared"
    """The engine does where the model's config declares the tensor that the note names."""
    NO = "no"


@dataclass(frozen=True, slots=True)
class Support:
    """How far a dialect obeys one feature."""

    level: Level
    note: str = ""
    """Of a lack: the reason, which clients read. Of `DECLARED`: the tensors. Else a remark for the page."""


class Askable(Enum):
    """Something that a request can ask for; the value is the parameters that ask for it, in the API's words."""

    @property
    def params(self) -> tuple[str, ...]:
        """Return the parameters that ask for it."""
        params: tuple[str, ...] = self.value
        return params


class Feature(Askable):
    """What a language model can be asked for."""

    TEMPERATURE = ("temperature",)
    TOP_P = ("top_p",)
    TOP_K = ("top_k",)
    MIN_P = ("min_p",)
    SEED = ("seed",)
    CHOICES = ("n",)
    BEST_OF = ("best_of",)
    MIN_TOKENS = ("min_tokens",)
    STOP = ("stop", "include_stop_str_in_output")
    STOP_IDS = ("stop_token_ids",)
    IGNORE_EOS = ("ignore_eos",)
    REPETITION_PENALTY = ("repetition_penalty",)
    PRESENCE_PENALTY = ("presence_penalty",)
    FREQUENCY_PENALTY = ("frequency_penalty",)
    LOGIT_BIAS = ("logit_bias",)
    ALLOWED_IDS = ("allowed_token_ids",)
    BAD_WORDS = ("bad_words", "bad_words_token_ids")
    LOGPROBS = ("logprobs",)
    ALTERNATIVES = ("top_logprobs",)
    LOGPROB_IDS = ("logprob_token_ids",)
    PROMPT_LOGPROBS = ("prompt_logprobs",)
    ECHO = ("echo",)
    SPECIAL_TOKENS = ("skip_special_tokens", "spaces_between_special_tokens")
    PROMPT_IDS = ("prompt_token_ids", "truncate_prompt_tokens")
    TOKEN_IDS = ("return_token_ids", "return_tokens_as_token_ids")
    BEAM_SEARCH = ("use_beam_search", "length_penalty")
    SCALED_LOGPROBS = ("temp_scaled_logprobs", "top_p_normalized_logprobs")
    GRAMMAR = ("response_format", "structured_outputs", "guided_*", "structural_tag", "tool_choice")
    """An answer of a certain form, which a call that is demanded has too."""
    THINKING_BUDGET = ("thinking_token_budget", "reasoning_max_tokens")
    FRAME_TOKENS = ("max_streaming_response_tokens",)
    CACHE_SALT = ("cache_salt",)
    EXTRA_ARGUMENTS = ("vllm_xargs",)
    KV_TRANSFER = ("kv_transfer_params",)
    PICTURES = ("image_url", "input_image", "image")
    """Parts of messages that are pictures: of chats, of responses and of the Messages API."""


_Asked = TypeVar("_Asked", bound=Askable)

HARMLESS: Mapping[str, tuple[object, ...]] = {
    "min_p": (0,),
    "min_tokens": (0,),
    "ignore_eos": (False,),
    "repetition_penalty": (1,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "stop_token_ids": ([],),
    "bad_words": ([],),
    "bad_words_token_ids": ([],),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logprob_token_ids": ([],),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "return_token_ids": (False,),
    "return_tokens_as_token_ids": (False,),
    "use_beam_search": (False,),
    "length_penalty": (1,),
    "temp_scaled_logprobs": (False,),
    "top_p_normalized_logprobs": (False,),
    "vllm_xargs": ({},),
    "kv_transfer_params": ({},),
}
"""The values of a parameter, beside null, that ask for nothing."""

_YES, _WORKER = Support(Level.ENGINE), Support(Level.WORKER)
_TEXT_ALONE = "it takes and gives text, not token ids"
_ENDLESS = "it cannot be made to end its thinking"
_CHOSEN_ALONE = "its engine reports the chosen tokens' log probabilities only"
_NO_CACHE = "no two requests share a cache"


def _if(tensors: str) -> Support:
    return Support(Level.DECLARED, tensors)


def _no(reason: str) -> Support:
    return Support(Level.NO, reason)


_FOR_ALL = {
    Feature.CHOICES: Support(Level.WORKER, "one call of the engine for each choice"),
    Feature.STOP: _WORKER,
    Feature.ECHO: Support(Level.WORKER, "with `logprobs` only where `prompt_logprobs` is"),
}
_NO_FIELD = "its engine has no such parameter"
_BLIND = "its engine takes no pictures"
_OWN_CACHE = "its engine shares cached prefixes and takes no salt for them"

TOKENS: Mapping[Feature, Support] = {
    **dict.fromkeys(Feature, _YES),
    **_FOR_ALL,
    Feature.SPECIAL_TOKENS: _WORKER,
    Feature.TOKEN_IDS: _WORKER,
    Feature.FRAME_TOKENS: _WORKER,
    Feature.BEST_OF: _WORKER,
    Feature.CACHE_SALT: Support(Level.ENGINE, _NO_CACHE),
    Feature.BEAM_SEARCH: _no("its engine has no beam search"),
    Feature.EXTRA_ARGUMENTS: _no(_NO_FIELD),
    Feature.KV_TRANSFER: _no(_NO_FIELD),
    Feature.PICTURES: _if("image_pixels, image_shapes, image_spans and image_hashes"),
}

FASTERTRANSFORMER: Mapping[Feature, Support] = {
    **_FOR_ALL,
    Feature.TEMPERATURE: _if("temperature"),
    Feature.TOP_P: _if("runtime_top_p"),
    Feature.TOP_K: _if("runtime_top_k"),
    Feature.MIN_P: _no(_NO_FIELD),
    Feature.SEED: _if("random_seed"),
    Feature.MIN_TOKENS: _if("min_length"),
    Feature.STOP_IDS: _WORKER,
    Feature.IGNORE_EOS: _no("its engine always stops at its end id"),
    Feature.REPETITION_PENALTY: _if("repetition_penalty"),
    Feature.PRESENCE_PENALTY: Support(Level.DECLARED, "presence_penalty, and never with repetition_penalty"),
    Feature.FREQUENCY_PENALTY: _no(_NO_FIELD),
    Feature.LOGIT_BIAS: _no(_NO_FIELD),
    Feature.ALLOWED_IDS: _no(_NO_FIELD),
    Feature.BAD_WORDS: _if("bad_words_list"),
    Feature.LOGPROBS: _if("is_return_log_probs"),
    Feature.ALTERNATIVES: _no(_CHOSEN_ALONE),
    Feature.LOGPROB_IDS: _no(_CHOSEN_ALONE),
    Feature.PROMPT_LOGPROBS: _no("its engine reports no log probabilities of the prompt"),
    Feature.SPECIAL_TOKENS: _WORKER,
    Feature.PROMPT_IDS: _YES,
    Feature.TOKEN_IDS: _WORKER,
    Feature.BEAM_SEARCH: _if("beam_width; length_penalty with len_penalty"),
    Feature.SCALED_LOGPROBS: _no(_NO_FIELD),
    Feature.BEST_OF: _if("is_return_log_probs"),
    Feature.GRAMMAR: _no("its engine cannot keep an answer to a grammar"),
    Feature.THINKING_BUDGET: _no(_ENDLESS),
    Feature.FRAME_TOKENS: _WORKER,
    Feature.CACHE_SALT: Support(Level.ENGINE, _NO_CACHE),
    Feature.EXTRA_ARGUMENTS: _no(_NO_FIELD),
    Feature.KV_TRANSFER: _no(_NO_FIELD),
    Feature.PICTURES: _no(_BLIND),
}

TENSORRTLLM: Mapping[Feature, Support] = {
    **_FOR_ALL,
    Feature.TEMPERATURE: _if("temperature or sampling_param_temperature"),
    Feature.TOP_P: _if("runtime_top_p, top_p or sampling_param_top_p"),
    Feature.TOP_K: _if("runtime_top_k, top_k or sampling_param_top_k"),
    Feature.MIN_P: _no(_NO_FIELD),
    Feature.SEED: _if("seed, random_seed or sampling_param_seed"),
    Feature.MIN_TOKENS: _if("min_tokens or min_length"),
    Feature.STOP_IDS: _if("input_ids"),
    Feature.IGNORE_EOS: _if("end_id, with a signed type"),
    Feature.REPETITION_PENALTY: _if("repetition_penalty"),
    Feature.PRESENCE_PENALTY: _if("presence_penalty or sampling_param_presence_penalty"),
    Feature.FREQUENCY_PENALTY: _if("frequency_penalty or sampling_param_frequency_penalty"),
    Feature.LOGIT_BIAS: _if("embedding_bias"),
    Feature.ALLOWED_IDS: _if("embedding_bias"),
    Feature.BAD_WORDS: _if("bad_words_list or bad_words"),
    Feature.LOGPROBS: _if("input_ids and return_log_probs"),
    Feature.ALTERNATIVES: _no(_CHOSEN_ALONE),
    Feature.LOGPROB_IDS: _no(_CHOSEN_ALONE),
    Feature.PROMPT_LOGPROBS: _no("its engine reports no log probabilities of the prompt"),
    Feature.SPECIAL_TOKENS: _if("input_ids"),
    Feature.PROMPT_IDS: _if("input_ids"),
    Feature.TOKEN_IDS: _if("input_ids"),
    Feature.BEAM_SEARCH: _if("input_ids and beam_width; length_penalty with len_penalty"),
    Feature.SCALED_LOGPROBS: _no(_NO_FIELD),
    Feature.BEST_OF: _if("input_ids and return_log_probs"),
    Feature.GRAMMAR: _if(
        "guided_decoding_guide_type and guided_decoding_guide; its backend knows no structural_tag, nor a tool_choice"
        " or strict tools, which are made of one"
    ),
    Feature.THINKING_BUDGET: _no(_ENDLESS),
    Feature.FRAME_TOKENS: _if("input_ids"),
    Feature.CACHE_SALT: _no(_OWN_CACHE),
    Feature.EXTRA_ARGUMENTS: _no(_NO_FIELD),
    Feature.KV_TRANSFER: _no(_NO_FIELD),
    Feature.PICTURES: _no("only the newest models of its LLM API take pictures; Conch sends them none"),
}

VLLM: Mapping[Feature, Support] = {
    **dict.fromkeys(Feature, _YES),
    **_FOR_ALL,
    Feature.STOP_IDS: Support(Level.ENGINE, "`stop_reason` is null: the engine does not say which id it was"),
    Feature.LOGIT_BIAS: _no("its parameters travel as JSON, whose keys are no token ids to it"),
    Feature.LOGPROBS: _if("return_logprobs"),
    Feature.ALTERNATIVES: _if("return_logprobs"),
    Feature.LOGPROB_IDS: _no("only its newest engines take token ids here; Conch does not ask them to"),
    Feature.PROMPT_LOGPROBS: _no("it reports no log probabilities of the prompt"),
    Feature.PROMPT_IDS: _no(_TEXT_ALONE),
    Feature.TOKEN_IDS: _no(_TEXT_ALONE),
    Feature.BEAM_SEARCH: _no("its engine has no beam search"),
    Feature.SCALED_LOGPROBS: _no(_NO_FIELD),
    Feature.BEST_OF: _if("return_logprobs"),
    Feature.GRAMMAR: Support(
        Level.ENGINE, "as `structured_outputs` where the model declares embedding_request, else as `guided_decoding`"
    ),
    Feature.THINKING_BUDGET: _no(
        "only its newest engines can end the thinking, where they are configured to; Conch does not ask them to"
    ),
    Feature.FRAME_TOKENS: _no(_TEXT_ALONE),
    Feature.CACHE_SALT: _no(_OWN_CACHE),
    Feature.EXTRA_ARGUMENTS: Support(Level.ENGINE, "as `extra_args`"),
    Feature.KV_TRANSFER: Support(
        Level.ENGINE,
        "in `extra_args`; not `do_remote_decode`, because the backend does not tell where the cache is then",
    ),
    Feature.PICTURES: _if("image"),
}

CAPABILITIES: Mapping[Dialect, Mapping[Feature, Support]] = {
    Dialect.TOKENS: TOKENS,
    Dialect.FASTERTRANSFORMER: FASTERTRANSFORMER,
    Dialect.TENSORRTLLM: TENSORRTLLM,
    Dialect.VLLM: VLLM,
}
"""Every dialect that generates, with every feature."""


def lacks(tables: Mapping[Dialect, Mapping[_Asked, Support]], elsewhere: _Asked) -> Mapping[Dialect, Mapping[str, str]]:
    """Return the parameters that each dialect can never obey, each with the reason, but for those of one feature."""
    return {
        dialect: {
            param: support.note
            for feature, support in table.items()
            if support.level is Level.NO and feature is not elsewhere
            for param in feature.params
        }
        for dialect, table in tables.items()
    }


LACKS = lacks(CAPABILITIES, elsewhere=Feature.GRAMMAR)
"""The parameters that a dialect can never obey, each with the reason; for a grammar, several stand together."""


def asks_for_nothing(param: str, value: object) -> bool:
    """Return whether a parameter's value leaves everything as it is."""
    return is_harmless(value, HARMLESS.get(param, ()))


def is_harmless(value: object, harmless: Iterable[object]) -> bool:
    """Return whether a value is null or one of those that ask for nothing."""
    # bool is an int to Python: without the type check 1 would pass for True.
    return value is None or any(
        value == other and isinstance(value, bool) == isinstance(other, bool) for other in harmless
    )


def lack(feature: Feature, param: str, dialect: Dialect) -> str | None:
    """Return the sentence that refuses a parameter where the dialect can never obey it; None elsewhere."""
    return refused(CAPABILITIES[dialect][feature], param, dialect)


def refused(support: Support, param: str, dialect: Dialect) -> str | None:
    """Return the sentence that refuses a parameter which a dialect supports so far; None where it does not."""
    return refusal(param, dialect, support.note) if support.level is Level.NO else None


def refusal(param: str, dialect: Dialect, reason: str) -> str:
    """Return the sentence that refuses a parameter."""
    return f"This model's backend ({dialect}) cannot obey '{param}': {reason}."
