"""One picture through the real process by three APIs: the tokenizer is asked the same."""

import base64
import json
from pathlib import Path
from typing import Any

from conch_contracts.names import PREPARE_PATH
from conch_contracts.records import PictureProfile
from testkit.gateway.fakes import route
from testkit.gateway.process import gateway_process

DATA = base64.b64encode(bytes(range(256)) * 12_000).decode()
URL = f"data:image/png;base64,{DATA}"
SAID = "What is this?"
ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": URL}}, {"type": "text", "text": SAID}],
            }
        ]
    },
    "/v1/responses": {
        "store": False,
        "input": [
            {
                "role": "user",
                "content": [{"type": "input_image", "image_url": URL}, {"type": "input_text", "text": SAID}],
            }
        ],
    },
    "/v1/messages": {
        "max_tokens": 4,
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
                    {"type": "text", "text": SAID},
                ],
            }
        ],
    },
}


async def test_one_picture_by_three_apis_is_one_chat(tmp_path: Path) -> None:
    async with gateway_process(tmp_path, route(pictures=PictureProfile())) as gateway:
        for path, document in ASKED.items():
            status, _, body = await gateway.post(path, json.dumps({"model": "tiny-chat", **document}).encode())
            assert status == 200, body
        asked = [json.loads(call.body) for call in gateway.backend.calls if call.path == PREPARE_PATH]
        first, *others = [work["chat"] for work in asked]
        assert first["pictures"] == [{"data": DATA, "param": "messages.0.content.0.image_url"}]
        assert first["messages"] == [{"role": "user", "content": SAID}]
        assert first["part_lengths"] == {"0": [None, len(SAID)]}
        assert others == [first, first]
        assert {work["picture_scope"] for work in asked} == {"all"}
        picture = {"type": "image_url", "image_url": "https://pictures.example/a.png"}
        remote = {"model": "tiny-chat", "messages": [{"role": "user", "content": [picture]}]}
        status, _, body = await gateway.post("/v1/chat/completions", json.dumps(remote).encode())
        assert status == 400
        assert json.loads(body)["error"]["param"] == "messages.0.content.0.image_url"
