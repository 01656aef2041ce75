import orjson
import pytest

from conch_kit.errors import InternalError, InvalidRequest, ServiceError, Unavailable
from conch_tokenizer.errors import BundleUnreadable, ChildError, ChildFailed, ChildHung, ChildLost, WorkStage
from conch_tokenizer.http.child_failures import as_service_error

CHAT = orjson.dumps({"digest": "x", "chat": {"messages": []}})
PICTURES = orjson.dumps(
    {"digest": "x", "chat": {"messages": [], "pictures": [{"data": "", "param": f"images.{n}"} for n in range(3)]}}
)
PROMPT = orjson.dumps({"digest": "x", "prompts": ["x"], "chat": None})


@pytest.mark.parametrize(
    ("found", "body", "expected", "code", "retryable"),
    [
        (ChildHung(2, WorkStage.BEGUN), CHAT, InvalidRequest, "template_error", False),
        (ChildHung(2, WorkStage.BEGUN), PROMPT, Unavailable, "overloaded", True),
        (ChildHung(2, WorkStage.UNREAD), CHAT, Unavailable, "overloaded", True),
        (ChildHung(5, WorkStage.ENCODING), CHAT, InvalidRequest, "too_complex", False),
        (ChildHung(5, WorkStage.STARVED), CHAT, Unavailable, "overloaded", False),
        (ChildLost("x"), CHAT, Unavailable, "overloaded", False),
        (ChildHung(5, WorkStage.STARVED), PICTURES, Unavailable, "overloaded", False),
        (ChildHung(5, WorkStage.ENCODING, picture=0), PICTURES, InvalidRequest, "invalid_value", False),
        (ChildLost("x", picture=2), PICTURES, InvalidRequest, "invalid_value", False),
        (ChildLost("x", picture=0), PROMPT, InternalError, None, False),
        (ChildFailed("x"), CHAT, InternalError, None, False),
        (BundleUnreadable("x"), CHAT, Unavailable, "tokenizer_invalid", False),
    ],
)
def test_what_went_wrong_in_a_child_has_one_answer(
    found: ChildError | BundleUnreadable, body: bytes, expected: type[ServiceError], code: str | None, retryable: bool
) -> None:
    answer = as_service_error(found, body)
    assert type(answer) is expected
    assert (answer.code, answer.retryable) == (code, retryable)


@pytest.mark.parametrize(
    ("told", "param"), [({}, "messages"), ({"chat_template_param": "chat_template"}, "chat_template")]
)
def test_a_hung_template_is_named_with_its_time(told: dict[str, str], param: str) -> None:
    body = orjson.dumps({"digest": "x", "chat": {"messages": [], **told}})
    answer = as_service_error(ChildHung(2, WorkStage.BEGUN), body)
    assert (answer.param, answer.message) == (param, "the chat template did not finish within 2 s")


@pytest.mark.parametrize(
    ("found", "param", "said"),
    [
        (ChildHung(5, WorkStage.ENCODING, picture=0), "images.0", "took more than 5 s"),
        (ChildLost("x", picture=2), "images.2", "took more than a picture may take"),
    ],
)
def test_a_picture_that_a_child_hung_or_ended_over_is_named(
    found: ChildHung | ChildLost, param: str, said: str
) -> None:
    answer = as_service_error(found, PICTURES)
    assert answer.param == param
    assert said in answer.message


def test_of_rows_that_are_pictures_the_one_that_was_read_is_named() -> None:
    shown = [{"data": "", "param": name} for name in ("text_1", "text_2.1")]
    rows = {"texts": [None, "a", None], "pictures": shown}
    answer = as_service_error(ChildHung(2, WorkStage.ENCODING, picture=1), orjson.dumps(rows))
    assert (answer.status, answer.param) == (400, "text_2.1")


@pytest.mark.parametrize(
    ("body", "param"), [(CHAT, "messages"), (PROMPT, "prompt"), (orjson.dumps({"texts": ["a"], "chat": None}), "rows")]
)
def test_a_text_that_takes_too_long_is_named(body: bytes, param: str) -> None:
    answer = as_service_error(ChildHung(5, WorkStage.ENCODING), body)
    assert (answer.param, answer.message) == (param, "the text could not be encoded within 5 s; make it shorter")
