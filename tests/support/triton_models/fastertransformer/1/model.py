"""A stand-in for fastertransformer_backend that keeps its contract and replays a fixed answer.

Triton itself refuses a wrong type, a missing input and an unknown one; this model refuses what the real one would
misread. Decoupled it sends the whole buffer with each token and once more at the end; otherwise it answers once. The
answer, its pace, and a point at which the model falls silent are parameters of its config; requests that were
cancelled, and the parameters of each, are written to the `events` file.
"""

import json
import threading
import time
from dataclasses import dataclass

import numpy
import triton_python_backend_utils as pb

SCALARS = ("start_id", "end_id", "runtime_top_k", "runtime_top_p", "temperature", "repetition_penalty", "random_seed")


class Refused(Exception):
    """A request that the real backend would misread."""


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


def value(request, name):
    """Return an input's values without the batch dimension, or None when it was not sent."""
    tensor = pb.get_input_tensor_by_name(request, name)
    if tensor is None:
        return None
    array = tensor.as_numpy()
    if array.shape[0] != 1:
        raise Refused(f"{name} has a batch of {array.shape[0]}, expected 1")
    return array[0]


def scalar(request, name, default):
    """Return an input's only value."""
    found = value(request, name)
    return default if found is None else found.reshape(-1)[0].item()


def words(request, name):
    """Return a word list: a row of ids, and a row of cumulative ends padded with -1."""
    rows = value(request, name)
    if rows is None:
        return []
    flat, ends = rows[0].tolist(), [end for end in rows[1].tolist() if end != -1]
    if rows[1].tolist()[len(ends) :] != [-1] * (len(flat) - len(ends)):
        raise Refused(f"{name} is not padded with -1 at its end")
    if ends != sorted(set(ends)) or not ends or ends[0] < 1 or ends[-1] != len(flat):
        raise Refused(f"{name} has ends {ends} for {len(flat)} ids")
    return [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]


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
                answers.append(self.refuse(request, str(refusal)))
                continue
            self.note("request", job)
            if self.decoupled:
                threading.Thread(target=self.stream, args=(job, request.get_response_sender()), daemon=True).start()
            else:
                made = self.made(job)
                time.sleep(self.delay_s * len(made))
                answers.append(self.response(job, made))
        return None if self.decoupled else answers

    def refuse(self, request, message):
        """Answer with an error."""
        response = pb.InferenceResponse(error=pb.TritonError(message))
        if self.decoupled:
            request.get_response_sender().send(response, flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return response

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
        return Job(
            id=request.request_id(),
            prompt=prompt,
            limit=limit,
            end_id=scalar(request, "end_id", self.end_id),
            stop_words=words(request, "stop_words_list"),
            log_probs=bool(scalar(request, "is_return_log_probs", 0)),
            scalars={name: scalar(request, name, None) for name in SCALARS},
        )

    def made(self, job):
        """Return the ids that the model makes: up to the limit, the end id or a stop word, each included."""
        made = []
        for token in self.answer[: job.limit]:
            made.append(token)
            if token == job.end_id or any(made[-len(word) :] == word for word in job.stop_words):
                break
        return made

    def stream(self, job, sender):
        """Send the buffer with each token, then once more."""
        made = self.made(job)
        for count in range(1, len(made) + 1):
            if count - 1 == self.silent_after:
                self.silent.append(sender)  # while it lives the stream stays open
                return
            time.sleep(self.delay_s)
            if sender.is_cancelled():
                self.note("cancelled", job)
                break
            sender.send(self.response(job, made[:count]))
        sender.send(self.response(job, made), flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def response(self, job, made):
        """Return the buffer as it stands."""
        width = len(job.prompt) + job.limit
        buffer = numpy.zeros((1, 1, width), numpy.uint32)
        buffer[0, 0, : len(job.prompt) + len(made)] = job.prompt + made
        length = numpy.array([[len(job.prompt) + len(made)]], numpy.uint32)
        tensors = [
            pb.Tensor("output_ids", buffer),
            pb.Tensor("sequence_length", length),
            pb.Tensor("response_input_lengths", numpy.array([[len(job.prompt)]], numpy.int32)),
        ]
        if job.log_probs:
            log_probs = numpy.zeros((1, 1, job.limit), numpy.float32)
            log_probs[0, 0, : len(made)] = [-(token % 8) / 8 for token in made]
            tensors.append(pb.Tensor("output_log_probs", log_probs))
            tensors.append(pb.Tensor("cum_log_probs", log_probs.sum(axis=2)))
        return pb.InferenceResponse(output_tensors=tensors)

    def note(self, what, job):
        """Append a line to the events file."""
        if self.events:
            with open(self.events, "a") as file:
                file.write(json.dumps({"what": what, "id": job.id, "at": time.time(), **job.scalars}) + "\n")
