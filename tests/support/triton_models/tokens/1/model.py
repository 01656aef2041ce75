"""A stand-in for the cpu runtime: ids and JSON parameters in, ids out."""

import json
import sys
from pathlib import Path

import numpy
import triton_python_backend_utils as pb

sys.path.insert(0, str(Path(__file__).parent))
import script

DEFAULTS = {
    "min_tokens": 0,
    "temperature": 1.0,
    "seed": None,
    "ignore_eos": False,
    "eos_token_ids": [],
    "stop_token_ids": [],
    "logprobs": None,
}


class TritonPythonModel:
    """Answers with a script."""

    def initialize(self, args):
        """Read the config."""
        self.stage = script.Stage(args)

    def execute(self, requests):
        """Answer each request from a thread of its own."""
        return self.stage.serve(requests, self.read, self.answer)

    def read(self, request):
        """Return the job of a request."""
        parameters = DEFAULTS | json.loads(script.array(request, "parameters", batched=False)[0])
        ids = script.array(request, "input_ids", batched=False).tolist()
        ends = parameters["stop_token_ids"] + ([] if parameters["ignore_eos"] else parameters["eos_token_ids"])
        return script.Job(
            id=request.request_id(),
            prompt=bytes(id_ for id_ in ids if id_ < script.END),
            limit=parameters["max_tokens"],
            least=parameters["min_tokens"],
            seed=parameters["seed"] or 0,
            greedy=parameters["temperature"] == 0,
            endings=frozenset(ends),
            noted={"parameters": parameters, "pictures": pictures(request)},
        )

    def answer(self, job, new, made, finish):
        """Return a message."""
        tensors = [pb.Tensor("token_ids", numpy.array(new, numpy.int32))]
        if job.noted["parameters"]["logprobs"] is not None:
            values = [script.log_prob(token) for token in new]
            tensors.append(pb.Tensor("logprobs", numpy.array(values, numpy.float32)))
        if finish is not None:
            stop = new[-1] if finish == "stop" else -1
            tensors.append(pb.Tensor("finish_reason", numpy.array([finish.encode()], numpy.object_)))
            tensors.append(pb.Tensor("stop_token_id", numpy.array([stop], numpy.int32)))
        return pb.InferenceResponse(output_tensors=tensors)


def pictures(request):
    """Return the pixels of each picture."""
    tensors = ("image_pixels", "image_shapes", "image_spans", "image_hashes")
    pixels, shapes, spans, hashes = (script.array(request, name, batched=False) for name in tensors)
    if pixels is None:
        return []
    if not len(shapes) == len(spans) == len(hashes) or shapes.prod(axis=1).sum() != len(pixels):
        raise script.Refused("the tensors of the pictures do not belong together")
    ends = shapes.prod(axis=1).cumsum()
    return [part.tobytes().hex() for part in numpy.split(pixels, ends[:-1])]
