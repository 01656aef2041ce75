import io
import json
import logging

import pytest

from conch_kit.logs import configure, request_id_var


@pytest.fixture
def stream(kept_logging: None) -> io.StringIO:
    stream = io.StringIO()
    configure("info", stream=stream)
    return stream


def test_a_line_is_json_with_its_fields_and_request_id(stream: io.StringIO) -> None:
    token = request_id_var.set("req-1")
    logging.getLogger("conch.test").info("Route %s published.", "a", extra={"model": "local/a", "count": 2})
    request_id_var.reset(token)
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "INFO",
        "logger": "conch.test",
        "message": "Route a published.",
        "request_id": "req-1",
        "model": "local/a",
        "count": 2,
    }


def test_an_exception_is_logged_with_its_stack_in_one_line(stream: io.StringIO) -> None:
    try:
        raise ValueError("boom")
    except ValueError:
        logging.getLogger("conch.test").exception("It failed.")
    (line,) = stream.getvalue().splitlines()
    assert "ValueError: boom" in json.loads(line)["exception"]


@pytest.mark.parametrize(
    "value", [object(), {1: 2}, "\ud800", 2**80, b"\xff"], ids=["object", "mapping", "surrogate", "integer", "bytes"]
)
def test_nothing_that_is_logged_can_break_the_line(stream: io.StringIO, value: object) -> None:
    logging.getLogger("conch.test").info("Odd.", extra={"value": value})
    assert json.loads(stream.getvalue())["message"] == "Odd."


def test_lower_levels_and_libraries_stay_quiet(stream: io.StringIO) -> None:
    logging.getLogger("conch.test").debug("Hidden.")
    logging.getLogger("grpc").info("Connected.")
    assert stream.getvalue() == ""
