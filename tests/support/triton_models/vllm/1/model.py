"""A stand-in for Triton's vLLM backend that keeps its contract: text and a JSON of vLLM's parameters in, text out.

Triton itself refuses a wrong type, a missing input and an unknown one. This model refuses what vLLM's SamplingParams
would: a parameter that it does not have, a value of another type, or a schema that xgrammar does not know. Like vLLM it
never sends half a character, cuts the token that ended an answer, and counts the new tokens of each message. With the
old names of its tensors (PROMPT, STREAM, SAMPLING_PARAMETERS, TEXT) it sends prompt and answer every time, as the first
versions did.
"""

import base64
import json
import sys
from pathlib import Path

import numpy
import triton_python_backend_utils as pb

sys.path.insert(0, str(Path(__file__).parent))
import script

NUMBER = (int, float)
KNOWN = {
    "max_tokens": int,
    "min_tokens": int,
    "temperature": NUMBER,
    "top_p": NUMBER,
    "top_k": int,
    "min_p": NUMBER,
    "repetition_penalty": NUMBER,
    "presence_penalty": NUMBER,
    "frequency_penalty": NUMBER,
    "seed": int,
    "ignore_eos": bool,
    "stop_token_ids": list,
    "bad_words": list,
    "allowed_token_ids": list,
    "logprobs": int,
    "skip_special_tokens": bool,
    "spaces_between_special_tokens": bool,
    "guided_decoding": str,
    "structured_outputs": str,
    "extra_args": dict,
    "lora_name": str,
}


class TritonPythonModel:
    """Answers with a script."""

    def initialize(self, args):
        """Read the config."""
        self.stage = script.Stage(args)
        self.old = "PROMPT" in self.stage.inputs

    def execute(self, requests):
        """Answer each request from a thread of its own."""
        return self.stage.serve(requests, self.read, self.answer)

    def read(self, request):
        """Return the job of a request."""
        prompt, stream, parameters = (
            script.array(request, name.upper() if self.old else name, batched=False)
            for name in ("prompt" if self.old else "text_input", "stream", "sampling_parameters")
        )
        if stream is None or not stream[0]:
            raise script.Refused("stream is not set: the whole answer would come with the prompt before it")
        chosen = checked(json.loads(parameters[0]))
        flags = ("exclude_input_in_output", "return_finish_reason", "return_logprobs", "return_num_output_tokens")
        wanted = {
            name for name in flags if (found := script.array(request, name, batched=False)) is not None and found[0]
        }
        return script.Job(
            id=request.request_id(),
            prompt=prompt[0],
            limit=chosen["max_tokens"],
            least=chosen.get("min_tokens", 0),
            seed=chosen.get("seed", 0),
            greedy=chosen.get("temperature", 1) == 0,
            endings=frozenset([*chosen.get("stop_token_ids", ()), *([] if chosen.get("ignore_eos") else [script.END])]),
            noted={"parameters": chosen, "wanted": sorted(wanted), "pictures": pictures(request)},
        )

    def answer(self, job, new, made, finish):
        """Return a message."""
        text, before = (shown(tokens, ended) for tokens, ended in ((made, finish), (made[: -len(new)], None)))
        if self.old:
            return pb.InferenceResponse(output_tensors=[strings("TEXT", [job.prompt + text.encode()])])
        wanted = job.noted["wanted"]
        tensors = [strings("text_output", [text[len(before) :].encode()])]
        if "return_finish_reason" in wanted:
            tensors.append(strings("finish_reason", [str(finish).encode()]))
        if "return_num_output_tokens" in wanted:
            tensors.append(pb.Tensor("num_output_tokens", numpy.array([len(new)], numpy.uint32)))
        if "return_logprobs" in wanted:
            tensors.append(strings("logprobs", [log_probs(new, job.noted["parameters"].get("logprobs"))]))
        return pb.InferenceResponse(output_tensors=tensors)


def pictures(request):
    """Return the files of the pictures, which come as bare base64."""
    files = script.array(request, "image", batched=False)
    return [] if files is None else [base64.b64decode(file, validate=True).hex() for file in files]


def checked(parameters):
    """Return the parameters as vLLM would take them."""
    for name, value in parameters.items():
        if name not in KNOWN:
            raise script.Refused(f"Unexpected keyword argument '{name}'")
        if not isinstance(value, KNOWN[name]) or (isinstance(value, bool) and KNOWN[name] is not bool):
            raise script.Refused(f"{name} is {value!r}")
    if '"multipleOf"' in parameters.get("structured_outputs", parameters.get("guided_decoding", "")):
        told = "The provided JSON schema contains features not supported by xgrammar."
        raise script.Refused(f"Error generating stream: {told}")
    if parameters.get("max_tokens", 0) < 1:
        raise script.Refused("max_tokens must be at least 1")
    return parameters


def shown(tokens, finish):
    """Return the text of tokens without the one that ended them, up to the last whole character."""
    visible = tokens[:-1] if finish == "stop" else tokens
    text = bytes(token for token in visible if token < script.END).decode("utf-8", "replace")
    return text if finish else text.rstrip("\ufffd")


def log_probs(tokens, alternatives):
    """Return the JSON of vLLM's log probabilities: the chosen id first, then the likeliest."""
    if alternatives is None:
        return b"null"
    rows = []
    for token in tokens:
        entry = {token: {"logprob": script.log_prob(token), "rank": 2, "decoded_token": ""}}
        for rank in range(1, alternatives + 1):
            if rank != 2:
                entry[token + 1000 * rank] = {"logprob": -rank / 16, "rank": rank, "decoded_token": ""}
        rows.append(entry)
    return json.dumps(rows).encode()


def strings(name, values):
    """Return a tensor of strings."""
    return pb.Tensor(name, numpy.array(values, numpy.object_))
