"""A stand-in for fastertransformer_backend that keeps its contract and replays a fixed answer.

Triton itself refuses a wrong type, a missing input and an unknown one; this model refuses what the real one would
misread. Decoupled it sends the whole buffer with each token and once more at the end; otherwise it answers once. The
beams of a search change their places until the end. The answer, its pace, and a point at which the model falls silent
are parameters of its config; without an answer there, the prompt says it (`script`). Requests that were cancelled, and
the parameters of each, are written to the `events` file.
"""

import json
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy
import triton_python_backend_utils as pb

sys.path.insert(0, str(Path(__file__).parent))
import script
from script import Refused

SCALARS = (
    *("start_id", "end_id", "runtime_top_k", "runtime_top_p", "temperature", "repetition_penalty", "random_seed"),
    *("beam_width", "len_penalty"),
)
LEAST = "min_length"


@dataclass
class Job:
    """One request as it was understood."""

    id: str
    prompt: list[int]
    limit: int
    end_id: int
    stop_words: list[list[int]]
    log_probs: bool
    scalars: dict[str, float]

    @property
    def beams(self):
        """Return with how many beams it is searched."""
        return self.scalars["beam_width"] or 1


def value(request, name):
    """Return an input's values without the batch dimension, or None when it was not sent."""
    return script.array(request, name, batched=True)


def scalar(request, name, default):
    """Return an input's only value."""
    found = value(request, name)
    return default if found is None else found.reshape(-1)[0].item()


def words(request, name):
    """Return a word list."""
    return script.words(value(request, name), name)


class TritonPythonModel:
    """Answers every request with the configured ids."""

    def initialize(self, args):
        """Read the parameters."""
        config = json.loads(args["model_config"])
        parameters = {name: one["string_value"] for name, one in config["parameters"].items()}
        self.decoupled = pb.using_decoupled_model_transaction_policy(config)
        self.answer = json.loads(parameters["answer"])
        self.end_id = int(parameters["end_id"])
        self.delay_s = float(parameters["token_delay_s"])
        self.silent_after = int(parameters["silent_after"])
        self.events = parameters["events"]
        self.silent = []

    def execute(self, requests):
        """Answer at once, or from a thread for each request of a decoupled model."""
        answers = []
        for request in requests:
            try:
                job = self.read(request)
            except Refused as refusal:
                answers.append(script.refuse(request, str(refusal), decoupled=self.decoupled))
                continue
            self.note("request", job)
            if self.decoupled:
                threading.Thread(target=self.stream, args=(job, request.get_response_sender()), daemon=True).start()
            else:
                made = self.made(job)
                time.sleep(self.delay_s * len(made))
                answers.append(self.response(job, made))
        return None if self.decoupled else answers

    def read(self, request):
        """Return the job of a request."""
        prompt = value(request, "input_ids").tolist()
        length = scalar(request, "input_lengths", None)
        if length != len(prompt):
            raise Refused(f"input_lengths is {length} for {len(prompt)} ids")
        limit = scalar(request, "request_output_len", 0)
        if limit < 1:
            raise Refused(f"request_output_len is {limit}")
        words(request, "bad_words_list")
        if scalar(request, "beam_width", 1) > 1:
            for name in ("runtime_top_k", "runtime_top_p"):
                if scalar(request, name, None) is not None:
                    raise Refused(f"{name} has no meaning in a search")
        return Job(
            id=request.request_id(),
            prompt=prompt,
            limit=limit,
            end_id=scalar(request, "end_id", self.end_id),
            stop_words=words(request, "stop_words_list"),
            log_probs=bool(scalar(request, "is_return_log_probs", 0)),
            scalars={name: scalar(request, name, None) for name in (*SCALARS, LEAST)},
        )

    def made(self, job, beam=0):
        """Return the ids that the model makes: up to the limit, the end id or a stop word, each included."""
        if not self.answer:
            return self.script(job, beam).tokens
        made, least = [], job.scalars[LEAST] or 0
        for token in self.answer[: job.limit]:
            made.append(token)
            if (token == job.end_id and len(made) > least) or any(
                made[-len(word) :] == word for word in job.stop_words
            ):
                break
        return made

    def script(self, job, beam=0):
        """Return what the prompt says that the answer is."""
        scalars, prompt = job.scalars, bytes(id_ for id_ in job.prompt if id_ < script.END)
        return script.Script(
            script.Job(
                job.id,
                prompt,
                job.limit,
                least=scalars[LEAST] or 0,
                seed=scalars["random_seed"] or 0,
                greedy=scalars["runtime_top_k"] == 1 or job.beams > 1,
                endings=frozenset({job.end_id}),
                words=job.stop_words,
            ),
            beam,
        )

    def stream(self, job, sender):
        """Send the buffer with each token, then once more."""
        made, told = self.made(job), None if self.answer else self.script(job)
        delay_s = told.delay_s if told else self.delay_s
        silent_after = told.silent if told else self.silent_after
        for count in range(1, len(made) + 1):
            if count - 1 == silent_after:
                self.silent.append(sender)  # while it lives the stream stays open
                return
            if told and count - 1 == told.fail:
                self.fail(sender)
                return
            time.sleep(delay_s)
            if sender.is_cancelled():
                self.note("cancelled", job)
                break
            sender.send(self.response(job, made[:count], certain=False))
        time.sleep(script.LAST_STEP_S)
        sender.send(self.response(job, made), flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def fail(self, sender):
        """Break in the middle."""
        response = pb.InferenceResponse(error=pb.TritonError("The engine broke."))
        sender.send(response, flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def response(self, job, made, *, certain=True):
        """Return the buffer as it stands, with a row for each beam; before the end, the beams are in another order."""
        rows = [made, *(self.made(job, beam) for beam in range(1, job.beams))]
        if not certain:
            rows.reverse()
        width = len(job.prompt) + job.limit
        buffer = numpy.zeros((1, len(rows), width), numpy.uint32)
        for at, row in enumerate(rows):
            buffer[0, at, : len(job.prompt) + len(row)] = job.prompt + row
        length = numpy.array([[len(job.prompt) + len(row) for row in rows]], numpy.uint32)
        tensors = [
            pb.Tensor("output_ids", buffer),
            pb.Tensor("sequence_length", length),
            pb.Tensor("response_input_lengths", numpy.array([[len(job.prompt)]], numpy.int32)),
        ]
        if job.log_probs:
            log_probs = numpy.zeros((1, len(rows), job.limit), numpy.float32)
            for at, row in enumerate(rows):
                log_probs[0, at, : len(row)] = [-(token % 8) / 8 for token in row]
            tensors.append(pb.Tensor("output_log_probs", log_probs))
            tensors.append(pb.Tensor("cum_log_probs", log_probs.sum(axis=2)))
        return pb.InferenceResponse(output_tensors=tensors)

    def note(self, what, job):
        """Append a line to the events file."""
        if self.events:
            with open(self.events, "a") as file:
                file.write(json.dumps({"what": what, "id": job.id, "at": time.time(), **job.scalars}) + "\n")
