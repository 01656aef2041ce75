"""Pictures among the parts of messages, and the parts that no model takes."""

import time
from typing import Any

import pytest

from conch_contracts.openai.chat import ChatMessage
from conch_contracts.records import Dialect, PictureProfile, Route
from conch_gateway.generation.endpoints import CHAT
from conch_gateway.requests import content_parts, validation
from conch_gateway.requests.chat_messages import as_templates_expect, part_lengths
from conch_gateway.requests.unsupported_members import refuse
from conch_kit.errors import InvalidRequest
from testkit.gateway.fakes import route, snapshot

URL = "data:image/png;base64,QUJD"
SEES = PictureProfile(max=2, max_bytes=6)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def image(url: str = URL, **more: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}, **more}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def messages(*given: dict[str, Any]) -> list[ChatMessage]:
    return validation.chat({"messages": list(given)}).request.conversation


def resolved(*given: dict[str, Any], sees: PictureProfile | None = SEES, **changes: Any) -> None:
    more = {name: changes.pop(name) for name in ("dialect",) if name in changes}
    document = {"model": "tiny-chat", "messages": list(given), **changes}
    CHAT.resolve_valid(validation.chat(document), snapshot(route(pictures=sees, **more)))


CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "c2"}]}


def result(id_: str, *parts: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "content": list(parts)}


@pytest.mark.parametrize(
    ("part", "data"),
    [
        (image(), "QUJD"),
        ({"type": "image_url", "image_url": URL}, "QUJD"),
        (image("DATA:IMAGE/JPEG;charset=x;BASE64,QUJD"), "QUJD"),
        (image("data:image/jpg;base64,QUI="), "QUI="),
        (image(uuid="u1"), "QUJD"),
        (image("data:image/png;base64,QUJD\nREVG\n"), "QUJD\nREVG\n"),
        ({"type": "image_url", "image_url": {"url": URL, "detail": "original"}}, "QUJD"),
        (image("data:image/webp;base64,???"), "???"),  # the tokenizer finds that out
    ],
)
def test_the_base64_of_a_picture_is_taken_as_it_is(part: dict[str, Any], data: str) -> None:
    (found,) = content_parts.pictures(messages(user(text("a"), part)), route(pictures=SEES))
    assert (found.data, found.param) == (data, "messages.0.content.1.image_url")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("data:image/svg+xml;base64,QUJD", "PNG, JPEG, WEBP or GIF, found 'image/svg[+]xml'"),
        ("data:text/plain;base64,QUJD", "found 'text/plain'"),
        ("data:;base64,QUJD", "found ''"),
        ("data:image/png,QUJD", "expected 'data:image/png;base64,'"),
        ("data:image/png;base64,", "found nothing"),
        ("data:image/png;base64,QUJDREVGRw==", "at most 6 bytes, found 7"),
        ("data:image/png;base64,QUJD\nREVG\nRw==\n", "at most 6 bytes, found 7"),
        ("", "expected 'data:image"),
        ("file:///etc/passwd", "expected 'data:image"),
        ("ftp://example.com/a.png", "expected 'data:image"),
        ("https://example.com/a.png", "only in the request itself"),
        ("HTTP://example.com/a.png", "only in the request itself"),
    ],
)
def test_what_is_no_picture_is_named(url: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as refusal:
        resolved(user(image(url)))
    assert refusal.value.param == "messages.0.content.0.image_url"
    assert refusal.value.code == "invalid_value"


def test_a_url_that_is_too_long_for_anybody_is_named() -> None:
    profile = PictureProfile(allowed_domains=("*",))
    longest = "https://example.com/".ljust(8192, "a")
    (found,) = content_parts.pictures(messages(user(image(longest))), route(pictures=profile))
    assert found.data == longest
    with pytest.raises(InvalidRequest, match="at most 8192 bytes") as refusal:
        resolved(user(image(longest + "a")), sees=profile)
    assert refusal.value.param == "messages.0.content.0.image_url"


@pytest.mark.parametrize(
    ("given", "param", "why"),
    [
        ({"sees": None}, "messages.0.content.1.image_url", "the model takes text alone"),
        ({"dialect": Dialect.FASTERTRANSFORMER}, "messages.0.content.1.image_url", "backend [(]fastertransformer[)]"),
        ({"disable_chat_template": True}, "disable_chat_template", "cannot be together with pictures"),
        ({"prompt_token_ids": [1]}, "prompt_token_ids", "cannot be together with pictures"),
        ({"truncate_prompt_tokens": 3}, "truncate_prompt_tokens", "cannot be together with pictures"),
    ],
)
def test_what_cannot_see_refuses_by_the_name_of_the_part(given: dict[str, Any], param: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as refusal:
        resolved(user(text("a"), image()), **given)
    assert refusal.value.param == param


@pytest.mark.parametrize(
    ("most", "said"),
    [
        (1, "At most 1 image may be provided in one prompt."),
        (2, "At most 2 images may be provided in one prompt."),
    ],
)
def test_a_prompt_has_so_many_pictures_and_no_more(most: int, said: str) -> None:
    profile = PictureProfile(max=most)
    resolved(*[user(image())] * most, sees=profile)
    with pytest.raises(InvalidRequest, match=said) as refusal:
        resolved(*[user(image())] * (most + 1), sees=profile)
    assert refusal.value.param == f"messages.{most}.content.0.image_url"


@pytest.mark.parametrize("role", ["system", "developer", "assistant"])
def test_only_the_user_and_tools_show_pictures(role: str) -> None:
    with pytest.raises(InvalidRequest, match=f"found the role '{role}'") as refusal:
        messages({"role": role, "content": [image()]})
    assert refusal.value.param == "messages.0.content.0.image_url"


@pytest.mark.parametrize(
    ("part", "param", "instead"),
    [
        ({"type": "input_audio", "input_audio": {"data": "a", "format": "wav"}}, "type", "audio/transcriptions"),
        ({"type": "audio_url", "audio_url": {"url": "x"}}, "type", "audio/transcriptions"),
        ({"type": "video_url", "video_url": {"url": "x"}}, "type", "single frames"),
        ({"type": "file", "file": {"file_id": "x"}}, "type", "as text or as pictures"),
        ({"type": "input_file", "file_id": "x"}, "type", "as text or as pictures"),
        ({"type": "image_embeds", "image_embeds": None}, "type", "the picture itself"),
        ({"type": "input_image", "image_url": URL}, "type", "of the type 'image_url'"),
        ({"type": "image", "source": {}}, "type", "of the type 'image_url'"),
        ({"type": "image_url", "image_url": None, "uuid": "u1"}, "image_url", "kept under its 'uuid'"),
    ],
)
def test_other_parts_are_refused_with_what_would_do(part: dict[str, Any], param: str, instead: str) -> None:
    with pytest.raises(InvalidRequest, match=instead) as refusal:
        messages(user(text("a"), part))
    assert (refusal.value.param, refusal.value.code) == (f"messages.0.content.1.{param}", "unsupported_parameter")


@pytest.mark.parametrize(
    ("part", "param", "said"),
    [
        ({"type": "image_url", "image_url": None}, "image_url", "expected a URL, or an object with one as 'url'"),
        ({"type": "image_url", "image_url": None, "uuid": None}, "image_url", "expected a URL"),
        ({"type": "picture"}, "type", "expected 'text' or 'image_url', found 'picture'"),
    ],
)
def test_what_is_no_part_is_told_what_parts_there_are(part: dict[str, Any], param: str, said: str) -> None:
    for document, where in (
        ({"messages": [user(text("a"), part)]}, f"messages.0.content.1.{param}"),
        ({"text_2": {"content": [part]}}, f"text_2.content.0.{param}"),
    ):
        with pytest.raises(InvalidRequest, match=said) as refusal:
            refuse(document, document.keys())
        assert (refusal.value.param, refusal.value.code) == (where, "invalid_value")


def test_only_white_space_of_base64_counts_for_nothing_in_a_files_size() -> None:
    sees = PictureProfile(max_bytes=3)
    resolved(user(image("data:image/png;base64,QU\n\t JD\r\f")), sees=sees)
    for space in ("\xa0", "\u2003", "\x0b", "\x1c"):
        with pytest.raises(InvalidRequest, match="at most 3 bytes, found"):
            resolved(user(image(f"data:image/png;base64,QUJD{space * 4}")), sees=sees)


def test_of_a_million_parts_that_are_no_objects_one_is_looked_at() -> None:
    document = {"messages": [{"role": "user", "content": ["a"] * 1_000_000}]}
    began = time.thread_time()
    refuse(document, document.keys())
    assert time.thread_time() - began < 0.02


@pytest.mark.parametrize(
    ("document", "where"),
    [
        ({"text_2": {"content": [image(), {"type": "input_image"}]}}, "text_2.content.1.type"),
        ({"documents": ["a", {"content": [{"type": "input_image"}]}]}, None),  # for the schema: the first is no object
        ({"documents": [{"content": [text("a"), {"type": "file"}]}]}, "documents.0.content.1.type"),
        ({"query": {"content": [{"type": "video_url"}]}}, "query.content.0.type"),
        ({"inputs": [{"content": [image(), {"type": "image_embeds"}]}]}, "inputs.0.content.1.type"),
    ],
)
def test_rows_have_no_parts_that_no_model_takes(document: dict[str, Any], where: str | None) -> None:
    if where is None:
        refuse(document, document.keys())
        return
    with pytest.raises(InvalidRequest) as refusal:
        refuse(document, document.keys())
    assert (refusal.value.param, refusal.value.code) == (where, "unsupported_parameter")


def shown(*given: dict[str, Any]) -> tuple[list[Any], dict[int, Any]]:
    found = content_parts.results_shown(messages(*given))
    return [(one["role"], one["content"]) for one in as_templates_expect(found)], part_lengths(found)


def test_a_picture_has_its_place_among_the_texts() -> None:
    said, lengths = shown(user(text("left"), image(), text("or right")), user(image()), user(text("a")))
    assert said == [("user", "left\nor right"), ("user", ""), ("user", "a")]
    assert lengths == {0: (4, None, 8), 1: (None,)}


def test_pictures_of_results_are_shown_by_the_user_behind_all_results() -> None:
    results = (result("c1", text("a"), image()), result("c2", image(), image()))
    said, lengths = shown(user(text("look")), CALLS, *results, user(text("so?")))
    assert said[2:] == [("tool", "a"), ("tool", ""), ("user", "so?")]
    assert lengths == {4: (None, None, None, 3)}
    said, lengths = shown(user(text("look")), CALLS, *results)
    assert said[4:] == [("user", "")]
    assert lengths == {4: (None, None, None)}
    said, lengths = shown(user(text("look")), CALLS, *results, {"role": "assistant", "content": "I see."})
    assert [role for role, _ in said[2:]] == ["tool", "tool", "user", "assistant"]


def test_pictures_keep_the_names_that_they_came_with(seeing: Route) -> None:
    given = messages(user(image()), CALLS, result("c1", text("a"), image()), result("c2", image()), user(image()))
    assert [picture.param for picture in content_parts.pictures(given, seeing)] == [
        "messages.0.content.0.image_url",
        "messages.2.content.1.image_url",
        "messages.3.content.0.image_url",
        "messages.4.content.0.image_url",
    ]


@pytest.fixture
def seeing() -> Route:
    return route(pictures=PictureProfile())
