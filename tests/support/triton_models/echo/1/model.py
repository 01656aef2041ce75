"""A stand-in for an engine of the `tokens` dialect that says what it is told: the prompt as far as the separator.

So a test decides what the model writes, token by token, by what the user's message says. Tokens come in messages of
one, two and three, in turn.
"""

import json

import numpy
import triton_python_backend_utils as pb


class TritonPythonModel:
    """Answers each request from its own prompt."""

    def initialize(self, args):
        """Read the separator."""
        parameters = json.loads(args["model_config"])["parameters"]
        self.separator = int(parameters["separator"]["string_value"])

    def execute(self, requests):
        """Answer each request at once."""
        for request in requests:
            prompt = pb.get_input_tensor_by_name(request, "input_ids").as_numpy().tolist()
            raw = pb.get_input_tensor_by_name(request, "parameters").as_numpy().reshape(-1)[0]
            sampling = json.loads(raw)
            answer = prompt[: prompt.index(self.separator)] if self.separator in prompt else prompt
            self.stream(request.get_response_sender(), answer, sampling)

    def stream(self, sender, answer, sampling):
        """Send the tokens, and how they end."""
        end = (sampling.get("eos_token_ids") or [self.separator])[0]
        made = [*answer, end][: sampling["max_tokens"]]
        start, size = 0, 1
        while start < len(made):
            sender.send(self.response([pb.Tensor("token_ids", numpy.array(made[start : start + size], numpy.int32))]))
            start, size = start + size, size % 3 + 1
        stopped = made[-1] == end
        last = [
            pb.Tensor("token_ids", numpy.array([], numpy.int32)),
            pb.Tensor("finish_reason", numpy.array([b"stop" if stopped else b"length"], numpy.object_)),
            pb.Tensor("stop_token_id", numpy.array([end if stopped else -1], numpy.int32)),
        ]
        sender.send(self.response(last), flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def response(self, tensors):
        """Return one message."""
        return pb.InferenceResponse(output_tensors=tensors)
