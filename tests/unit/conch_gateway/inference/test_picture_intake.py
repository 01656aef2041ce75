"""One picture through every API: the tokenizer is asked the same, and errors have the client's names."""

import base64
import time
from typing import Any

import orjson
import pytest

from conch_contracts.messages.generation import GenerateRequest
from conch_contracts.messages.message import from_json
from conch_contracts.names import ENCODE_PATH, GENERATE_PATH, PREPARE_PATH, PREPARE_ROWS_PATH, TOKENIZE_PATH
from conch_contracts.records import ChatProfile, Dialect, ModelKind, PictureProfile
from conch_contracts.tool_call_marks import ToolCallParser
from conch_gateway.http.auth import ApiKeys
from conch_gateway.inference.picture_intake import PictureSource
from conch_kit.errors import InvalidRequest, ServiceError, UpstreamError, UpstreamTimeout
from testkit.gateway.fakes import Gateway, answered, gateway, refused, route, snapshot
from testkit.gateway.memory_responses import MemoryResponses

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
URL = "data:image/png;base64,QUJD"
REMOTE = "https://pictures.example/a.png"
BODY = b'{"object":"response","status":"completed","output":[]}'
CALLER = ChatProfile(tool_calls=ToolCallParser.HERMES, takes_tools=True)
SEES = PictureProfile(max=3)


def served(scripts: Any = None, sees: PictureProfile | None = SEES, **more: Any) -> Gateway:
    model = route(pictures=sees, max_model_len=4096, chat=CALLER, dialect=more.pop("dialect", Dialect.TOKENS))
    worker = {GENERATE_PATH: answered(BODY), TOKENIZE_PATH: answered(b'{"tokens":[1]}')}
    return gateway({**worker, **(scripts or {})}, known=snapshot(model), responses=MemoryResponses(), **more)


def chat(url: str = URL) -> dict[str, Any]:
    parts = [{"type": "text", "text": "What is"}, {"type": "image_url", "image_url": {"url": url}}]
    return {
        "model": "tiny-chat",
        "messages": [{"role": "user", "content": [*parts, {"type": "text", "text": "this?"}]}],
    }


def responses(url: str = URL) -> dict[str, Any]:
    parts = [{"type": "input_text", "text": "What is"}, {"type": "input_image", "image_url": url, "detail": "high"}]
    return {
        "model": "tiny-chat",
        "input": [{"role": "user", "content": [*parts, {"type": "input_text", "text": "this?"}]}],
    }


def claude(url: str = URL) -> dict[str, Any]:
    source = {"type": "base64", "media_type": "image/png", "data": url.partition(",")[2]}
    if url.startswith("http"):
        source = {"type": "url", "url": url}
    parts = [{"type": "text", "text": "What is"}, {"type": "image", "source": source}]
    said = [{"role": "user", "content": [*parts, {"type": "text", "text": "this?"}]}]
    return {"model": "tiny-chat", "max_tokens": 9, "messages": said}


APIS = {
    CHAT: (chat, "messages.0.content.1.image_url"),
    RESPONSES: (responses, "input.0.content.1.image_url"),
    MESSAGES: (claude, "messages.0.content.1.source"),
    f"{MESSAGES}/count_tokens": (claude, "messages.0.content.1.source"),
    "/tokenize": (chat, "messages.0.content.1.image_url"),
}


async def asked(path: str, document: dict[str, Any], **more: Any) -> dict[str, Any]:
    running = served(**more)
    answer = await running.client.post(path, document)
    assert answer.status == 200, answer.body
    (post,) = [post for post in running.upstream.posts if post.path in (PREPARE_PATH, TOKENIZE_PATH)]
    found: dict[str, Any] = orjson.loads(post.body)
    return found


@pytest.mark.parametrize("path", APIS)
async def test_every_api_asks_the_same_of_a_picture(path: str) -> None:
    document, _ = APIS[path]
    work = await asked(path, document())
    assert work["picture_limits"] == {"max": 3, "max_pixels": 33_000_000, "max_bytes": 20_000_000}
    assert work["chat"]["messages"] == [{"role": "user", "content": "What is\nthis?"}]
    assert work["chat"]["part_lengths"] == {"0": [7, None, 5]}
    assert work["chat"]["pictures"] == [{"data": "QUJD", "param": "messages.0.content.1.image_url"}]
    if path != "/tokenize":
        assert (work["picture_scope"], work["picture_form"]) == ("all", "pixels")


async def test_engines_with_an_eye_of_their_own_get_a_file() -> None:
    assert (await asked(CHAT, chat(), dialect=Dialect.VLLM))["picture_form"] == "png"


@pytest.mark.parametrize("dialect", [Dialect.TENSORRTLLM, Dialect.FASTERTRANSFORMER])
async def test_engines_that_workers_send_no_pictures_refuse_them(dialect: Dialect) -> None:
    answer = await served(dialect=dialect).client.post(CHAT, chat())
    assert (answer.status, answer.error["param"]) == (400, "messages.0.content.1.image_url")
    assert f"({dialect}) cannot obey" in answer.error["message"]


async def test_a_model_that_sees_tells_so_for_texts_too() -> None:
    work = await asked(CHAT, {"model": "tiny-chat", "messages": [{"role": "user", "content": "<image>"}]})
    assert work["picture_limits"]["max"] == 3
    assert work["chat"]["pictures"] == []
    work = await asked("/v1/completions", {"model": "tiny-chat", "prompt": "<image>"})
    assert (work["picture_limits"]["max"], work["chat"]) == (3, None)


@pytest.mark.parametrize("path", APIS)
@pytest.mark.parametrize("fault", ["blind", "remote", "broken"])
async def test_an_error_names_the_part_as_its_api_does(path: str, fault: str) -> None:
    document, param = APIS[path]
    said = "Invalid value for 'messages.0.content.1.image_url': no picture."
    answer = refused(400, said, param="messages.0.content.1.image_url", code="invalid_value")
    broken = {PREPARE_PATH: lambda _: answer, TOKENIZE_PATH: lambda _: answer}
    running = served(broken, sees=None if fault == "blind" else SEES)
    found = await running.client.post(path, document(REMOTE if fault == "remote" else URL))
    assert found.status == 400
    assert f"'{param}'" in found.error["message"]
    assert path.startswith(MESSAGES) or found.error["param"] == param
    assert bool(running.upstream.posts) == (fault == "broken")


@pytest.mark.parametrize("header", [(b"authorization", b"Bearer sk-%b"), (b"x-api-key", b"sk-%b")])
async def test_what_one_key_shows_is_found_again_by_that_key_alone(tmp_path: Any, header: tuple[bytes, bytes]) -> None:
    (tmp_path / "keys").write_text("ann:sk-a\nbob:sk-b\n")
    keys = ApiKeys(tmp_path / "keys")
    await keys.load()
    running = served(keys=keys)
    for key in (b"a", b"b", b"a"):
        await running.client.post(CHAT, chat(), [(header[0], header[1] % key)])
    ann, bob, again = [work["picture_scope"] for work in running.upstream.sent(PREPARE_PATH)]
    assert ann == again != bob
    assert "all" not in (ann, bob)


async def test_requests_with_and_without_pictures_share_no_parameters() -> None:
    running = served()
    plain = {"model": "tiny-chat", "messages": [{"role": "user", "content": "hi"}]}
    for document in (chat(), plain, chat("data:image/png;base64,REVG"), plain):
        assert (await running.client.post(CHAT, document)).status == 200
    shown = [[one["data"] for one in work["chat"]["pictures"]] for work in running.upstream.sent(PREPARE_PATH)]
    assert shown == [["QUJD"], [], ["REVG"], []]
    scopes = [work["picture_scope"] for work in running.upstream.sent(PREPARE_PATH)]
    assert scopes == ["all", "", "all", ""]


class Fetched:
    """Plays the process that fetches pictures."""

    def __init__(self, *files: bytes | Exception) -> None:
        self.files = list(files)
        self.asked: list[tuple[str, int, str]] = []

    async def fetch(self, url: str, profile: PictureProfile, param: str) -> bytes:
        self.asked.append((url, profile.max_bytes, param))
        file = self.files.pop(0)
        if isinstance(file, Exception):
            raise file
        return file


OPEN = PictureProfile(allowed_domains=("pictures.example",), max_bytes=15_000_000)


@pytest.mark.parametrize("path", APIS)
async def test_a_url_is_fetched_before_the_tokenizer_is_asked(path: str) -> None:
    source: PictureSource = (pictures := Fetched(b"ABC"))
    work = await asked(path, APIS[path][0](REMOTE), sees=OPEN, pictures=source)
    assert work["chat"]["pictures"] == [{"data": "QUJD", "param": "messages.0.content.1.image_url"}]
    assert pictures.asked == [(REMOTE, 15_000_000, "messages.0.content.1.image_url")]


async def test_a_row_that_is_named_by_url_is_fetched_for_its_tokenizer() -> None:
    seen = {"pixels": "QUJD", "height": 1, "width": 1, "scale": [1, 1, 1], "shift": [0, 0, 0], "length": 65}
    scripts = {
        PREPARE_ROWS_PATH: answered(orjson.dumps({"rows": [{"ids": [], "picture": seen}]})),
        ENCODE_PATH: answered(b'{"data":[{"object":"embedding","index":0,"embedding":[1.0]}]}'),
    }
    source: PictureSource = (pictures := Fetched(b"ABC"))
    model = route(kind=ModelKind.EMBEDDING, dialect=Dialect.ENCODER, pictures=OPEN)
    running = gateway(scripts, known=snapshot(model), pictures=source)
    shown = {"content": [{"type": "image_url", "image_url": REMOTE}], "role": "user"}
    answer = await running.client.post("/v1/embeddings", {"model": "tiny-chat", "messages": [shown]})
    assert (answer.status, len(pictures.asked)) == (200, 1)
    (preparation,) = running.upstream.sent(PREPARE_ROWS_PATH)
    assert preparation["pictures"] == [{"data": "QUJD", "param": "messages.0.content.0.image_url"}]
    assert preparation["picture_scope"]


async def test_what_is_fetched_for_one_request_has_a_bound() -> None:
    pictures = Fetched(b"a" * 15_000_000, b"b" * 5_000_000)
    parts = [{"type": "image_url", "image_url": REMOTE}] * 3
    running = served(sees=OPEN, pictures=pictures)
    answer = await running.client.post(CHAT, {"model": "tiny-chat", "messages": [{"role": "user", "content": parts}]})
    assert [most for _, most, _ in pictures.asked] == [15_000_000, 5_000_000]
    assert (answer.status, answer.error["param"]) == (400, "messages.0.content.2.image_url")


@pytest.mark.parametrize("path", APIS)
@pytest.mark.parametrize("data", ["http://pictures.example/a.png", "data:image/png;base64,QUJD"])
async def test_what_comes_as_base64_is_never_fetched(path: str, data: str) -> None:
    source: PictureSource = (pictures := Fetched(b"ABC"))
    work = await asked(path, APIS[path][0](f"data:image/png;base64,{data}"), sees=OPEN, pictures=source)
    assert work["chat"]["pictures"] == [{"data": data, "param": "messages.0.content.1.image_url"}]
    assert pictures.asked == []


@pytest.mark.parametrize("path", APIS)
@pytest.mark.parametrize(("kind", "status"), [(InvalidRequest, 400), (UpstreamError, 502), (UpstreamTimeout, 504)])
async def test_what_cannot_be_fetched_is_named(path: str, kind: type[ServiceError], status: int) -> None:
    fault = kind("Invalid value for 'messages.0.content.1.image_url': no.", param="messages.0.content.1.image_url")
    running = served(sees=OPEN, pictures=Fetched(fault))
    answer = await running.client.post(path, APIS[path][0](REMOTE))
    assert answer.status == status
    assert f"'{APIS[path][1]}'" in answer.error["message"]
    assert running.upstream.posts == []


async def test_without_a_source_only_data_urls_are_taken() -> None:
    answer = await served(sees=OPEN).client.post(CHAT, chat(REMOTE))
    assert answer.status == 400
    assert "nobody fetches pictures here" in answer.error["message"]


CALLED = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
SEEN = [{"type": "text", "text": "a"}, chat()["messages"][0]["content"][1]]
SEEN_BY_RESPONSES = [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": URL}]
SEEN_BY_CLAUDE = [{"type": "text", "text": "a"}, claude()["messages"][0]["content"][1]]
LOOK = {"role": "user", "content": "look"}
RESULT_OF: dict[str, tuple[dict[str, Any], str]] = {
    CHAT: (
        {
            "messages": [
                LOOK,
                {"role": "assistant", "tool_calls": [CALLED]},
                {"role": "tool", "tool_call_id": "c1", "content": SEEN},
            ]
        },
        "messages.2.content.1.image_url",
    ),
    RESPONSES: (
        {
            "input": [
                LOOK,
                {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": SEEN_BY_RESPONSES},
            ]
        },
        "input.2.output.1.image_url",
    ),
    MESSAGES: (
        {
            "max_tokens": 9,
            "messages": [
                LOOK,
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]},
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "c1", "content": SEEN_BY_CLAUDE}],
                },
            ],
        },
        "messages.2.content.0.content.1.source",
    ),
}


@pytest.mark.parametrize("path", RESULT_OF)
async def test_pictures_of_a_tools_result_come_from_the_user_in_every_api(path: str) -> None:
    document, param = RESULT_OF[path]
    chats = (await asked(path, {"model": "tiny-chat", **document}))["chat"]
    assert [(one["role"], one["content"]) for one in chats["messages"][-2:]] == [("tool", "a"), ("user", "")]
    assert chats["part_lengths"] == {"3": [None]}
    assert [one["data"] for one in chats["pictures"]] == ["QUJD"]
    answer = await served(sees=None).client.post(path, {"model": "tiny-chat", **document})
    assert (answer.status, f"'{param}'" in answer.error["message"]) == (400, True)


async def test_a_response_is_kept_with_its_pictures_and_goes_on_with_them() -> None:
    running = served()
    first = await running.client.post(RESPONSES, responses())
    assert first.status == 200
    made = running.upstream.sent(GENERATE_PATH)[-1]["response_id"]
    listed = orjson.loads((await running.client.get(f"{RESPONSES}/{made}/input_items")).body)["data"]
    picture = {"type": "input_image", "image_url": URL, "detail": "high", "file_id": None}
    assert listed[0]["content"][1] == picture
    more = {"model": "tiny-chat", "previous_response_id": made, "input": [{"role": "user", "content": [picture]}]}
    assert (await running.client.post(RESPONSES, more)).status == 200
    last = running.upstream.sent(PREPARE_PATH)[-1]["chat"]
    assert [one["data"] for one in last["pictures"]] == ["QUJD", "QUJD"]
    running.learn(snapshot(route(pictures=PictureProfile(max=1))))
    answer = await running.client.post(RESPONSES, more)
    assert (answer.status, answer.error["param"]) == (400, "input.0.content.0.image_url")
    running.learn(snapshot(route()))
    answer = await running.client.post(RESPONSES, more)
    assert (answer.status, answer.error["param"]) == (400, "previous_response_id")


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"type": "input_image", "file_id": "f"}, "input.0.content.0.file_id"),
        ({"type": "input_image", "image_url": URL, "file_id": "f"}, "input.0.content.0.file_id"),
        ({"type": "input_file", "file_id": "f"}, "input.0.content.0.type"),
        ({"type": "input_audio", "input_audio": {}}, "input.0.content.0.type"),
        ({"type": "image_url", "image_url": {"url": URL}}, "input.0.content.0.type"),
    ],
)
async def test_responses_refuse_what_is_not_kept_here(part: dict[str, Any], param: str) -> None:
    answer = await served().client.post(
        RESPONSES, {"model": "tiny-chat", "input": [{"role": "user", "content": [part]}]}
    )
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, param, "unsupported_parameter")


TWO = {"content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": URL}}]}


@pytest.mark.parametrize(
    ("path", "kind", "document", "param"),
    [
        ("/v1/embeddings", ModelKind.EMBEDDING, {"messages": chat()["messages"]}, "messages.0.content.1.image_url"),
        ("/pooling", ModelKind.EMBEDDING, {"messages": chat()["messages"]}, "messages.0.content.1.image_url"),
        ("/classify", ModelKind.CLASSIFY, {"messages": chat()["messages"]}, "messages.0.content.1.image_url"),
        ("/v2/embed", ModelKind.EMBEDDING, {"inputs": [TWO], "input_type": "image"}, "inputs.0.content.1.image_url"),
        ("/score", ModelKind.RERANK, {"text_1": "a", "text_2": TWO}, "text_2.content.1.image_url"),
        ("/rerank", ModelKind.RERANK, {"query": "a", "documents": TWO}, "documents.content.1.image_url"),
    ],
)
async def test_encoders_refuse_pictures_by_name(
    path: str, kind: ModelKind, document: dict[str, Any], param: str
) -> None:
    running = gateway(known=snapshot(route(kind=kind, dialect=Dialect.ENCODER)))
    answer = await running.client.post(path, {"model": "tiny-chat", **document})
    assert (answer.status, answer.error["param"]) == (400, param)
    assert answer.error["code"] == "unsupported_parameter"


async def least_work_s(running: Gateway, path: str, body: object) -> float:
    """Return how long a request keeps the loop busy, the least of three: a collection of garbage may fall into one."""
    took = []
    for _ in range(3):
        begun = time.thread_time()
        assert (await running.client.post(path, body)).status == 200
        took.append(time.thread_time() - begun)
    return min(took)


async def test_the_worker_gets_pictures_as_the_tokenizer_has_prepared_them() -> None:
    picture = {"data": "QUJD" * 2_000_000, "height": 2, "width": 2, "start": 1, "length": 2, "digest": "d"}
    prompt = {"ids": [1, 9, 9, 2], "text": "a<image>b", "pictures": [picture]}
    tokenizer = {PREPARE_PATH: answered(orjson.dumps({"prompts": [prompt]}))}
    running = served(tokenizer)
    assert await least_work_s(running, CHAT, chat()) < 0.03
    sent = running.upstream.sent(GENERATE_PATH)[-1]
    assert sent["prompts"] == [{**prompt, "text_is_exact": True}]
    assert len(from_json(GenerateRequest, running.upstream.posts[-1].body).prompts[0].pictures[0].data) == 6_000_000


@pytest.mark.parametrize("path", APIS)
async def test_a_large_picture_is_no_work_for_the_loop(path: str) -> None:
    large = "data:image/png;base64," + base64.b64encode(b"\x00\x10\x83\x10\x51\x87\x20\x92\x8b" * 800_000).decode()
    assert await least_work_s(served(), path, orjson.dumps(APIS[path][0](large))) < 0.03
