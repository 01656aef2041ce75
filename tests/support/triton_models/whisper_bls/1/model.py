"""A stand-in for TensorRT-LLM's `whisper_bls` and sherpa's `infer_bls`, which hears tones: see `tones`.

It refuses what they cannot take: another batch than one row, no length where one is declared, more than 30 s of sound
or too little for a spectrogram, a prompt of more than 14 tokens, and, so that no mistake passes, a length that is not
the sound's, samples beyond full scale and special tokens that no Whisper has. Like them it ends a text after
`most_tokens` without a word, writes times where the prompt does not forbid them, removes them again, and works to its
end whether or not somebody still waits. A decoupled one sends the whole text so far in each message.

`pace_s` is how long a window takes, `fail_at` after how many words it fails.
"""

import json
import re
import sys
import time
import traceback
from pathlib import Path

import numpy
import triton_python_backend_utils as pb

sys.path.insert(0, str(Path(__file__).parent))
from tones import heard

LONGEST, SHORTEST = 480_000, 201
PROMPT_TOKENS = 14
PREFIX = "<|startoftranscript|><|en|><|transcribe|><|notimestamps|>"
SPECIAL = re.compile(r"<\|(startoftranscript|startofprev|notimestamps|transcribe|translate|en|de|zh)\|>|(.)", re.DOTALL)
FULL_SCALE = 32_768
FINAL = pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    """Hears tones and writes them down."""

    def initialize(self, args):
        """Read the config."""
        config = json.loads(args["model_config"])
        told = {k: v["string_value"] for k, v in config["parameters"].items()}
        self.decoupled = pb.using_decoupled_model_transaction_policy(config)
        self.takes_length = any(item["name"] == "WAV_LENS" for item in config["input"])
        self.most_tokens = int(told["most_tokens"])
        self.pace_s = float(told["pace_s"])
        self.fail_at = int(told["fail_at"] or -1)
        self.events = told["events"]

    def execute(self, requests):
        """Answer one request after the other, as the real ones do."""
        if not self.decoupled:
            return [self.whole(request) for request in requests]
        for request in requests:
            sender = request.get_response_sender()
            try:
                for text in self.texts(request, sender):
                    sender.send(response(text))
            except Exception:  # noqa: BLE001 - as the real one does
                sender.send(pb.InferenceResponse(output_tensors=[], error=pb.TritonError(traceback.format_exc())))
            sender.send(flags=FINAL)
        return None

    def whole(self, request):
        """Return the response of a model that answers once."""
        try:
            *_, text = self.texts(request, request)
        except Exception:  # noqa: BLE001 - as the real one does
            return pb.InferenceResponse(output_tensors=[], error=pb.TritonError(traceback.format_exc()))
        return response(text)

    def texts(self, request, caller):
        """Yield the text as it grows; raises for what the real models cannot take."""
        name, (prefix, wav) = request.request_id(), self.read(request)
        self.note("heard", name, samples=len(wav), prefix=prefix)
        time.sleep(self.pace_s)
        if caller.is_cancelled():
            self.note("cancelled", name)
        words = heard(numpy.round(wav * FULL_SCALE).astype(numpy.int16))
        timed = "<|notimestamps|>" not in prefix
        tokens = (
            ["<|0.00|>"] * timed + [f" w{word:02}" for word, _, _ in words] + [f"<|{len(wav) / 16_000:.2f}|>"] * timed
        )
        tokens = tokens[: self.most_tokens]
        for count in range(int(self.decoupled), len(tokens) + 1):
            if count == self.fail_at:
                raise RuntimeError("Assertion failed: KV cache is exhausted")
            yield re.sub(r"<\|.*?\|>", "", "".join(tokens[:count]).strip())
        self.note("answered", name, words=len(words))

    def read(self, request):
        """Return the prefix and the sound."""
        prefix = tensor(request, "TEXT_PREFIX")[0][0].decode() or PREFIX
        found = SPECIAL.findall(prefix)
        assert len(found) <= PROMPT_TOKENS, f"the prompt has {len(found)} tokens, and the engine takes {PROMPT_TOKENS}"
        assert found[0][0] == "startoftranscript", f"no Whisper begins with {prefix!r}"
        assert not any(other for _, other in found), f"{prefix!r} holds more than special tokens"
        wav = tensor(request, "WAV")
        assert wav.shape[0] == 1, "Only support batch size 1"
        if self.takes_length:
            length = tensor(request, "WAV_LENS").item()
            assert length == wav.shape[1], f"WAV_LENS is {length}, and the sound has {wav.shape[1]} samples"
        assert SHORTEST <= wav.shape[1] <= LONGEST, f"a window cannot have {wav.shape[1]} samples"
        assert numpy.abs(wav).max() <= 1.0, "samples go from -1 to 1"
        return prefix, wav[0]

    def note(self, what, name, **more):
        """Write down what happens."""
        if self.events:
            with open(self.events, "a") as file:
                file.write(json.dumps({"what": what, "id": name, **more}) + "\n")


def tensor(request, name):
    """Return an input."""
    return pb.get_input_tensor_by_name(request, name).as_numpy()


def response(text):
    """Return a response with a text; its shape is that of the real models."""
    return pb.InferenceResponse([pb.Tensor("TRANSCRIPTS", numpy.array([text], numpy.object_))])
