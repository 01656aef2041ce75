"""Counts up, one response a number, with a pause behind each; it can also fail and die, and tells of cancellations.

A count of -1 raises, -2 ends the process as a crash would, -3 answers with an error and says behind it that this was
all. A count of 0 answers how many requests were cancelled.
"""

import os
import threading
import time

import numpy
import triton_python_backend_utils as pb


class TritonPythonModel:
    """One thread per request."""

    def initialize(self, args):
        self.cancelled = 0

    def execute(self, requests):
        for request in requests:
            count, pause_ms = (
                int(pb.get_input_tensor_by_name(request, name).as_numpy()[0]) for name in ("count", "pause_ms")
            )
            if count == -1:
                raise pb.TritonModelException("boom")
            if count == -2:
                os._exit(1)
            sender = request.get_response_sender()
            if count == -3:
                sender.send(pb.InferenceResponse(error=pb.TritonError("boom")))
                sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
                continue
            threading.Thread(target=self.run, args=(sender, count, pause_ms / 1000), daemon=True).start()

    def run(self, sender, count, pause_s):
        if count == 0:
            self.send(sender, self.cancelled)
        for number in range(count):
            if sender.is_cancelled():
                self.cancelled += 1
                break
            self.send(sender, number)
            time.sleep(pause_s)
        sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def send(self, sender, number):
        sender.send(pb.InferenceResponse([pb.Tensor("number", numpy.array([number], numpy.int32))]))
