"""A stand-in for engines of speech: each word is a tone, so that what is heard of long sound is known exactly.

As strict as the cpu runtime about what it is given. It may end before the speech does (`most_words`), work slowly
(`pace_s`) and find nobody's voice in nothing but tones.
"""

import json
import math
import sys
import threading
import time
from pathlib import Path

import numpy
import triton_python_backend_utils as pb

sys.path.insert(0, str(Path(__file__).parent))
from tones import heard

LONGEST = 480_000
PAUSE_S, SEGMENT_WORDS = 0.3, 10
KNOWN = {
    "max_tokens",
    "temperatures",
    "compression_ratio_threshold",
    "logprob_threshold",
    "no_speech_threshold",
    "languages",
    "word_times",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "seed",
}
FINAL = pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class Refused(Exception):
    """The request cannot be obeyed."""


class TritonPythonModel:
    """Hears tones."""

    def initialize(self, args):
        """Read the config."""
        config = {k: v["string_value"] for k, v in json.loads(args["model_config"])["parameters"].items()}
        self.ids = json.loads(config["ids"])
        self.most_words = int(config["most_words"])
        self.pace_s = float(config["pace_s"])
        self.events = config["events"]

    def execute(self, requests):
        """Answer each request from a thread of its own."""
        for request in requests:
            sender = request.get_response_sender()
            try:
                job = self.read(request)
            except Refused as error:
                sender.send(pb.InferenceResponse(error=pb.TritonError(f"INVALID: {error}")), flags=FINAL)
                continue
            threading.Thread(target=self.serve, args=(request.request_id(), job, sender), daemon=True).start()

    def read(self, request):
        """Return what is to be heard; raises Refused."""
        pcm = tensor(request, "pcm")
        prompt = tensor(request, "prompt_ids")
        given = tensor(request, "parameters")
        if pcm.dtype != numpy.int16 or pcm.ndim != 1 or not 0 < len(pcm) <= LONGEST:
            raise Refused(f"pcm: must hold from 1 to {LONGEST} samples; found {pcm.shape} of {pcm.dtype}")
        if prompt.dtype != numpy.int32 or prompt.ndim != 1 or list(prompt).count(self.ids["start"]) != 1:
            raise Refused("prompt_ids: must hold the id with which a model begins once")
        at = list(prompt).index(self.ids["start"])
        if at and prompt[0] != self.ids["previous"]:
            raise Refused("prompt_ids: what comes before must begin with its id")
        if any(token < 0 for token in [*prompt[: at + 1], *prompt[at + 2 :]]):
            raise Refused("prompt_ids: -1 may stand for a language alone")
        if len(given) != 1:
            raise Refused("parameters: must hold one JSON text")
        parameters = json.loads(given[0])
        if set(parameters) - KNOWN or "max_tokens" not in parameters:
            raise Refused(f"{min(set(parameters) - KNOWN, default='max_tokens')}: is not known, or missing")
        if parameters["max_tokens"] + len(prompt) > 448:
            raise Refused("max_tokens: leaves the context")
        return pcm, list(prompt), at, parameters

    def serve(self, name, job, sender):
        """Hear and answer."""
        pcm, prompt, at, parameters = job
        self.note("heard", name, samples=len(pcm), prompt=[int(token) for token in prompt], parameters=parameters)
        until = time.monotonic() + self.pace_s
        while time.monotonic() < until:
            if sender.is_cancelled():
                self.note("cancelled", name)
                sender.send(flags=FINAL)
                return
            sender.send(response(token_ids=numpy.zeros(0, numpy.int32)))
            time.sleep(0.05)
        language = prompt[at + 1] if at + 1 < len(prompt) else -1
        if language == -1 and at + 1 < len(prompt):
            language = (parameters.get("languages") or [self.ids["language"]])[0]
        sender.send(
            response(
                language_id=numpy.array([language], numpy.int32),
                no_speech_prob=numpy.array([0.01], numpy.float32),
                token_ids=numpy.zeros(0, numpy.int32),
            )
        )
        ids, times = self.tokens(heard(pcm)[: self.most_words], parameters["max_tokens"])
        tensors = {
            "token_ids": numpy.array(ids, numpy.int32),
            "logprobs": numpy.full(len(ids), -0.25, numpy.float32),
            "avg_logprob": numpy.array([-0.25], numpy.float32),
            "temperature": numpy.array([parameters.get("temperatures", [0.0])[0]], numpy.float32),
            "finish_reason": numpy.array([b"stop"], numpy.object_),
        }
        if parameters.get("word_times"):
            tensors["token_times"] = numpy.array(times, numpy.float32)
        sender.send(response(**tensors), flags=FINAL)
        self.note("answered", name, ids=len(ids))

    def tokens(self, words, limit):
        """Return ids with their times; a segment ends at a pause, or after some words."""
        ids, times = [], []

        def stamp(seconds):
            ids.append(self.ids["first_time"] + round(seconds / 0.02))
            times.append(seconds)

        count = 0
        for index, (word, start, end) in enumerate(words):
            if count == 0:
                stamp(start)
            ids.append(word)
            times.append(start)
            count += 1
            following = words[index + 1][1] if index + 1 < len(words) else math.inf
            if count == SEGMENT_WORDS or following - end > PAUSE_S:
                stamp(end)
                count = 0
            if len(ids) > limit - 4:
                if count:
                    stamp(end)
                break
        return ids, [*times, times[-1] if times else 0.0]

    def note(self, what, name, **more):
        """Write down what happens."""
        if self.events:
            with open(self.events, "a") as file:
                file.write(json.dumps({"what": what, "id": name, **more}) + "\n")


def tensor(request, name):
    """Return an input."""
    found = pb.get_input_tensor_by_name(request, name)
    if found is None:
        raise Refused(f"{name}: missing")
    return found.as_numpy()


def response(**tensors):
    """Return a response with these tensors."""
    return pb.InferenceResponse([pb.Tensor(name, value) for name, value in tensors.items()])
