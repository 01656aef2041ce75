"""What the stand-ins for language model backends answer, and how they send it: the same tokens in every dialect.

A token is a byte and `END` ends an answer. The answer follows from prompt and seed: the prompt's characters, turned by
as many places as the seed says. A search gives an answer for each beam, turned by as many places as its number. A
prompt may hold one remark such as `@{"say": "Hello", "delay": 0.05}`, which is no part of it:

    say      the answer instead
    delay    seconds before each token
    group    tokens in one message, 1 by default
    fail     tokens after which the model fails
    silent   tokens after which nothing more comes

What happened is written to the file that the model's parameter `events` names.
"""

import json
import re
import threading
import time
from dataclasses import dataclass, field

import triton_python_backend_utils as pb

END = 256
LAST_STEP_S = 0.02
"""What an engine's step takes at least. Triton 24.10 crashes when a cancelled request ends while its message before
is still being sent."""
REMARK = re.compile(rb"@(\{[^}]*\})")


class Refused(Exception):
    """A request that the real backend would refuse or misread."""


@dataclass
class Job:
    """One request as it was understood."""

    id: str
    prompt: bytes
    limit: int
    least: int = 0
    seed: int = 0
    greedy: bool = False
    endings: frozenset = frozenset({END})
    words: list = field(default_factory=list)
    noted: dict = field(default_factory=dict)
    """What the events file says of it."""
    whole: bool = False
    """Whether it is answered by one message although the model is decoupled."""
    beams: int = 1


class Script:
    """The answer to one request."""

    def __init__(self, job, beam=0):
        found = REMARK.search(job.prompt)
        remark = json.loads(found[1]) if found else {}
        self.delay_s = remark.get("delay", 0)
        self.group = remark.get("group", 1)
        self.fail = remark.get("fail", -1)
        self.silent = remark.get("silent", -1)
        text = REMARK.sub(b"", job.prompt).decode("utf-8", "replace")
        turn = 0 if job.greedy or not text else job.seed % len(text)
        said = remark.get("say", text[turn:] + text[:turn])
        if said:
            said = said[beam % len(said) :] + said[: beam % len(said)]
        whole = [*said.encode(), END]
        self.tokens, self.finish = [], "length"
        for token in whole[: job.limit]:
            self.tokens.append(token)
            held = len(self.tokens) <= job.least
            if (token in job.endings and not held) or any(self.tokens[-len(word) :] == word for word in job.words):
                self.finish = "stop"
                break
        else:
            if len(whole) <= job.limit:  # even an ignored end is the last token of the script
                self.finish = "stop"


def log_prob(token):
    """Return a log probability that tests can tell from the token."""
    return -(token % 8) / 8


def refuse(request, message, *, decoupled):
    """Answer a request with an error."""
    response = pb.InferenceResponse(error=pb.TritonError(message))
    if decoupled:
        request.get_response_sender().send(response, flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
    return response


class Stage:
    """Plays scripts and writes events; one for each model."""

    def __init__(self, args):
        config = json.loads(args["model_config"])
        self.parameters = {name: one["string_value"] for name, one in config.get("parameters", {}).items()}
        self.decoupled = pb.using_decoupled_model_transaction_policy(config)
        self.inputs = {one["name"] for one in config["input"]}
        self.silent = []

    def serve(self, requests, read, answer):
        """Answer each request: `read` gives its job, `answer` the response for the new and all tokens of a message."""
        answers = []
        for request in requests:
            try:
                job = read(request)
            except Refused as refusal:
                answers.append(refuse(request, str(refusal), decoupled=self.decoupled))
                continue
            self.note("request", job)
            if self.decoupled:
                call = (job, Script(job), request.get_response_sender(), answer)
                threading.Thread(target=self.tell if job.whole else self.play, args=call, daemon=True).start()
            else:
                answers.append(self.whole(job, Script(job), answer))
        return None if self.decoupled else answers

    def whole(self, job, script, answer):
        """Return the one response of a model that is not decoupled."""
        time.sleep(script.delay_s * len(script.tokens))
        if script.fail >= 0:
            return pb.InferenceResponse(error=pb.TritonError("The engine broke."))
        return answer(job, script.tokens, script.tokens, script.finish)

    def tell(self, job, script, sender, answer):
        """Send the one response of a model that is decoupled, to a request that wants no stream."""
        response = self.whole(job, script, answer)
        if sender.is_cancelled():
            self.note("cancelled", job)
        sender.send(response, flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def play(self, job, script, sender, answer):
        """Send a script message by message; the last one carries the final flag."""
        final, tokens = pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL, script.tokens
        for start in range(0, len(tokens), script.group):
            made = tokens[: start + script.group]
            if start == script.silent:
                self.silent.append(sender)  # while it lives the stream stays open
                return
            time.sleep(script.delay_s * (len(made) - start))
            if sender.is_cancelled():
                self.note("cancelled", job)
                time.sleep(LAST_STEP_S)
                error = pb.TritonError("Request was cancelled", pb.TritonError.CANCELLED)
                sender.send(pb.InferenceResponse(error=error), flags=final)
                return
            if start == script.fail:
                sender.send(pb.InferenceResponse(error=pb.TritonError("The engine broke.")), flags=final)
                return
            last = len(made) == len(tokens)
            if last and start:
                time.sleep(LAST_STEP_S)
            response = answer(job, made[start:], made, script.finish if last else None)
            sender.send(response, flags=final if last else 0)

    def note(self, what, job):
        """Append a line to the events file."""
        if self.parameters.get("events"):
            line = json.dumps({"what": what, "id": job.id, "at": time.time(), **job.noted})
            with open(self.parameters["events"], "a") as file:
                file.write(line + "\n")


def array(request, name, *, batched):
    """Return an input's values without the batch dimension, or None when it was not sent."""
    tensor = pb.get_input_tensor_by_name(request, name)
    if tensor is None:
        return None
    found = tensor.as_numpy()
    if batched and found.shape[0] != 1:
        raise Refused(f"{name} has a batch of {found.shape[0]}, expected 1")
    return found[0] if batched else found


def words(rows, name):
    """Return a word list: a row of ids, and a row of cumulative ends padded with -1."""
    if rows is None:
        return []
    flat, ends = rows[0].tolist(), [end for end in rows[1].tolist() if end != -1]
    if rows[1].tolist()[len(ends) :] != [-1] * (len(flat) - len(ends)):
        raise Refused(f"{name} is not padded with -1 at its end")
    if ends != sorted(set(ends)) or not ends or ends[0] < 1 or ends[-1] != len(flat):
        raise Refused(f"{name} has ends {ends} for {len(flat)} ids")
    return [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]
