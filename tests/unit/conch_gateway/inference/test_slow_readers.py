"""While a whole answer waits for its client to read it, no watchdog ends the request: the write has its own limit."""

from typing import Any

import pytest

from conch_contracts.names import DETOKENIZE_PATH, GENERATE_PATH, TOKENIZE_PATH
from conch_contracts.records import ModelKind
from conch_gateway.inference import intake
from conch_gateway.inference.watchdog import RequestWatchdog, WatchdogLimits, WatchdogVerdict, decide
from testkit.gateway import encoders, speech
from testkit.gateway.fakes import Gateway, answered, gateway
from testkit.http.forms import HEADERS, form

HI = [{"role": "user", "content": "hi"}]
VECTORS = b'{"data":[{"object":"embedding","index":0,"embedding":[1.0]}]}'
OVER = WatchdogLimits(deadline=0, keep_alive_s=1e9)
"""Of a request whose time is over."""


@pytest.mark.parametrize(
    ("served", "path", "body"),
    [
        (gateway({GENERATE_PATH: answered(b"{}")}), "/v1/chat/completions", {"messages": HI}),
        (gateway({TOKENIZE_PATH: answered(b'{"tokens":[1]}')}), "/tokenize", {"prompt": "hi"}),
        (gateway({DETOKENIZE_PATH: answered(b'{"prompt":"hi"}')}), "/detokenize", {"tokens": [1]}),
        (encoders.serving(ModelKind.EMBEDDING, answered(VECTORS)), "/v1/embeddings", {"input": "hi"}),
        (
            encoders.serving(ModelKind.RERANK, answered(b'{"rows":[[0.5]]}')),
            "/v1/score",
            {"text_1": "a", "text_2": "b"},
        ),
        (speech.serving(answered(b'{"text":"hi"}', speech.USAGE)), speech.TRANSCRIPTIONS, form()),
    ],
    ids=["a chat", "tokens", "a text", "vectors", "scores", "a transcript"],
)
async def test_a_slow_reader_of_a_whole_answer_is_not_cut_at_the_deadline(
    served: Gateway, path: str, body: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    watchdogs: list[RequestWatchdog] = []
    verdicts: list[WatchdogVerdict] = []

    class Noted(RequestWatchdog):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            watchdogs.append(self)

    def room() -> bool:
        """Be asked before each message whether the client has read enough for it."""
        verdicts.extend(decide(1e12, watchdog.activity, OVER) for watchdog in watchdogs)
        return True

    monkeypatch.setattr(intake, "RequestWatchdog", Noted)
    served.client.room = room
    answer = await served.client.post(path, body, HEADERS if isinstance(body, bytes) else ())
    assert answer.status == 200
    assert verdicts == [WatchdogVerdict.NOTHING] * 2  # head and body
