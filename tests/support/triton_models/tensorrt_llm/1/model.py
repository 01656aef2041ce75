"""A stand-in for the models of TensorRT-LLM's Triton backend: with ids, with text around them, and the LLM API's.

Which one it is depends on its config. Triton itself refuses a wrong type, a missing input and an unknown one; this
model refuses what the real ones would misread. Ids come as the new ones of each message, with the prompt before them
only when nothing is streamed and nobody has excluded it. A beam search answers once with all beams, padded with -1.
Text comes as all of it when `accumulate_tokens` is set and from the LLM API's model, else each message is decoded
alone, as the ensemble does; half a character is U+FFFD.
"""

import json
import sys
from pathlib import Path

import numpy
import triton_python_backend_utils as pb

sys.path.insert(0, str(Path(__file__).parent))
import script

LIMITS = ("request_output_len", "max_tokens", "sampling_param_max_tokens")
SEEDS = ("seed", "random_seed", "sampling_param_seed")
TOP_KS = ("runtime_top_k", "top_k", "sampling_param_top_k")
TOP_PS = ("runtime_top_p", "top_p", "sampling_param_top_p")
LEASTS = ("min_tokens", "min_length")
TEMPERATURES = ("temperature", "sampling_param_temperature")
FETCHING = (
    "Executor failed process requestId 1 due to the following error: Encountered an error when fetching new request: "
)
STEPPING = (
    "Executor failed process requestId 1 due to the following error: Encountered an error in forwardAsync function: "
)
VOCABULARY = 258
"""Bytes, their end, and one more."""
MOST_TOKENS = 16384
"""How long a prompt may be."""
STREAMS = ("streaming", "stream")
EXCLUDES = ("exclude_input_in_output", "sampling_param_exclude_input_from_output")


SETTINGS = Path(__file__).parent / "model.yaml"
LLM_ARGUMENTS = {
    *("model", "backend", "tensor_parallel_size", "pipeline_parallel_size", "max_batch_size", "max_seq_len"),
    *("kv_cache_config", "trust_remote_code", "triton_config"),
}
CACHE_ARGUMENTS = {"enable_block_reuse", "free_gpu_memory_fraction"}
"""Those of the LLM API that Conch knows; the real one refuses any other that it has not."""


class TritonPythonModel:
    """Answers with a script."""

    @classmethod
    def auto_complete_config(cls, config):
        """Take what only model.yaml says, as the LLM API's model does; JSON is YAML, too."""
        if not SETTINGS.exists():
            return config
        found = json.loads(SETTINGS.read_text())
        unknown = {*(found.keys() - LLM_ARGUMENTS), *(found["kv_cache_config"].keys() - CACHE_ARGUMENTS)}
        if unknown or found["backend"] != "pytorch":
            raise ValueError(f"LLM() takes no {sorted(unknown)} and backend {found['backend']}")
        config.set_model_transaction_policy({"decoupled": bool(found["triton_config"]["decoupled"])})
        config.set_max_batch_size(int(found["triton_config"]["max_batch_size"]))
        return config

    def initialize(self, args):
        """Read the config."""
        self.stage = script.Stage(args)
        self.ids = "input_ids" in self.stage.inputs
        self.llm_api = LIMITS[2] in self.stage.inputs
        self.whole = self.llm_api or self.stage.parameters.get("accumulate_tokens") == "true"

    def execute(self, requests):
        """Answer at once, or from a thread for each request of a decoupled model."""
        return self.stage.serve(requests, self.read, self.answer)

    def read(self, request):
        """Return the job of a request."""
        stream = bool(self.value(request, STREAMS, 0))
        if stream and not self.stage.decoupled:
            raise script.Refused("Streaming is only supported in decoupled mode.")
        beams = self.beams(request, stream=stream)
        self.check_guide(request)
        temperature, top_k = self.value(request, TEMPERATURES, 1), self.value(request, TOP_KS, 0)
        if temperature <= 0:
            raise script.Refused(f"temperature is {temperature}")
        if not top_k and self.value(request, TOP_PS, 0) <= 0:
            top_k = 1  # the backend is greedy when neither is set
        limit = self.value(request, LIMITS, 0)
        if limit < 1:
            raise script.Refused(f"the limit is {limit}")
        end = self.value(request, ("end_id",), script.END if not self.ids else -1)
        scalars = {name: self.value(request, (name,), None) for name in sorted(self.stage.inputs) if self.plain(name)}
        return script.Job(
            id=request.request_id(),
            prompt=self.prompt(request),
            limit=limit,
            least=self.value(request, LEASTS, 0),
            seed=self.value(request, SEEDS, 0),
            greedy=top_k == 1,
            endings=frozenset({end}),
            words=self.words(request, "stop_words_list"),
            noted={**scalars, **self.bias(request), "exclude": bool(self.value(request, EXCLUDES, 0))},
            whole=not stream,
            beams=beams,
        )

    def check_guide(self, request):
        """Refuse a guide of a type that the backend would ignore, and one that its compiler cannot obey."""
        kind, guide = (self.texts(request, f"guided_decoding_{name}") for name in ("guide_type", "guide"))
        if not kind:
            return
        if kind[0] not in {b"json", b"json_schema", b"regex", b"ebnf_grammar"}:
            raise script.Refused(f"a guide of the type {kind[0]} would be ignored")
        if b"(?=" in b"".join(guide):
            told = "Regex parsing error at position 4: Lookahead is not supported yet."
            raise script.Refused(f"{STEPPING}[10:52:27] /b/xgrammar-src/cpp/regex_converter.cc:73: {told}")

    def bias(self, request):
        """Return what is asked of single ids; a bias is one number for each id of the vocabulary."""
        found = script.array(request, "embedding_bias", batched=True) if self.ids else None
        if found is None:
            return {}
        if found.shape != (VOCABULARY,):
            told = "The embedding bias shape is not as expected. Expected last dimension to be same as vocab size: "
            raise script.Refused(f"{FETCHING}[TensorRT-LLM][ERROR] Assertion failed: {told}{VOCABULARY}.")
        allowed = numpy.isfinite(found)
        biases = {str(id_): float(found[id_]) for id_ in numpy.flatnonzero(allowed & (found != 0))}
        return {
            "logit_bias": biases or None,
            "allowed_token_ids": None if allowed.all() else numpy.flatnonzero(allowed).tolist(),
        }

    def texts(self, request, name):
        """Return the elements of an input of text; none when it was not sent."""
        found = script.array(request, name, batched=not self.llm_api)
        return [] if found is None else found.reshape(-1).tolist()

    def beams(self, request, *, stream):
        """Return with how many beams the request is searched."""
        beams = self.value(request, ("beam_width",), 1)
        if not 1 <= beams <= int(self.stage.parameters.get("max_beam_width", 1)):
            most = self.stage.parameters.get("max_beam_width", 1)
            told = f"Requested beam width {beams} is larger than configured max beam width {most}"
            raise script.Refused(f"{STEPPING}[TensorRT-LLM][ERROR] Assertion failed: {told}")
        if self.value(request, ("len_penalty",), 0) < 0:
            raise script.Refused("[TensorRT-LLM][ERROR] Assertion failed: lengthPenalty.value() >= 0.f")
        if beams == 1:
            return 1
        if stream:
            raise script.Refused("a search with beams is not streamed")
        if self.texts(request, "guided_decoding_guide_type"):
            raise script.Refused("Guided decoding does not support with beam search.")
        for name in (*TOP_KS, *TOP_PS):
            if self.value(request, (name,), None) is not None:
                raise script.Refused(f"{name} has no meaning in a search")
        return beams

    def prompt(self, request):
        """Return the prompt's bytes."""
        if not self.ids:
            found = script.array(request, "text_input", batched=not self.llm_api)
            if found.size != 1:
                raise script.Refused(f"text_input has {found.size} elements")
            return found[0]
        ids = script.array(request, "input_ids", batched=True).tolist()
        if self.value(request, ("input_lengths",), None) != len(ids):
            raise script.Refused(f"input_lengths is not {len(ids)}")
        if len(ids) > MOST_TOKENS:
            raise script.Refused(f"{FETCHING}Prompt length ({len(ids)}) exceeds maximum input length ({MOST_TOKENS}).")
        self.words(request, "bad_words_list")
        return bytes(id_ for id_ in ids if id_ < script.END)

    def plain(self, name):
        """Tell whether an input holds one number."""
        return not name.endswith(("_list", "_words", "_ids", "_input", "_stop", "guide", "guide_type", "_bias"))

    def words(self, request, name):
        """Return a word list of a model with ids."""
        return script.words(script.array(request, name, batched=True), name) if self.ids else []

    def value(self, request, names, default):
        """Return the only value of the first of these inputs that was sent."""
        for name in names:
            found = script.array(request, name, batched=not self.llm_api)
            if found is not None:
                if found.size != 1:
                    raise script.Refused(f"Expected a scalar tensor for tensor {name}")
                return found.reshape(-1)[0].item()
        return default

    def answer(self, job, new, made, finish):
        """Return a message."""
        excluded = not job.whole or job.noted["exclude"]
        if self.ids:
            return pb.InferenceResponse(output_tensors=list(self.rows(job, new, made, excluded=excluded)))
        text = bytes(token for token in (made if self.whole else new) if token < script.END).decode("utf-8", "replace")
        shown = text if excluded else job.prompt.decode() + text
        tensors = [self.tensor("text_output", [shown.encode()], numpy.object_)]
        if job.noted.get("return_finish_reason"):
            tensors.append(self.tensor("finish_reason", [str(finish).encode()], numpy.object_))
        if job.noted.get("return_num_output_tokens"):
            tensors.append(self.tensor("num_output_tokens", [len(new)], numpy.int32))
        return pb.InferenceResponse(output_tensors=tensors)

    def rows(self, job, new, made, *, excluded):
        """Give the tensors of an answer of ids, with a row for each beam."""
        answers = [new, *(script.Script(job, beam).tokens for beam in range(1, job.beams))]
        rows = [ids if excluded else [*job.prompt, *ids] for ids in answers]
        width = max(map(len, rows))
        yield self.tensor("output_ids", [row + [-1] * (width - len(row)) for row in rows], numpy.int32)
        yield self.tensor("sequence_length", [len(row) for row in rows], numpy.int32)
        if job.noted.get("return_log_probs"):
            values = [[script.log_prob(token) for token in ids] for ids in [made, *answers[1:]]]
            width = max(map(len, values))
            padded = [row + [-1] * (width - len(row)) for row in values]
            yield self.tensor("output_log_probs", padded, numpy.float32)
            yield self.tensor("cum_log_probs", [sum(row) for row in values], numpy.float32)

    def tensor(self, name, values, kind):
        """Return a tensor, with the batch dimension where the model has one."""
        found = numpy.array(values, kind)
        return pb.Tensor(name, found if self.llm_api else found[None])
