"""The HTTP side of checking grammars: in children of their own, and with verdicts that are remembered.

A grammar may end its child, so no request for text waits behind one. The same grammar sent again, good or bad, gets its
answer at once.
"""

import asyncio
import hashlib
from collections import OrderedDict
from functools import partial

from conch_contracts.messages.tokenizer_frames import Operation
from conch_kit.bundles.disk_cache import BundleCache
from conch_kit.errors import InvalidRequest, Unavailable
from conch_kit.http.asgi import Receive, Scope, Send, json_response, read_body
from conch_tokenizer.children.pool import ChildPool, with_missing_bundle
from conch_tokenizer.errors import BundleUnreadable, ChildError, ChildHung, ChildLost
from conch_tokenizer.http.child_failures import as_service_error
from conch_tokenizer.http.request_count import RequestCount

MAX_BODY_BYTES = 2 * 1024**2
_REMEMBERED = 1024
_GOOD = b"{}"


class GrammarService:
    """Answers check-grammar."""

    def __init__(self, pool: ChildPool, bundles: BundleCache, count: RequestCount) -> None:
        self._pool = pool
        self._bundles = bundles
        self._count = count
        self._verdicts: OrderedDict[bytes, str | None] = OrderedDict()
        self._locks: dict[bytes, asyncio.Lock] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; raises ServiceError."""
        body = await read_body(receive, MAX_BODY_BYTES)
        with self._count.counted(Operation.CHECK_GRAMMAR):
            await self.check(body)
        await json_response(send, 200, _GOOD)

    async def check(self, body: bytes) -> None:
        """Check a `CheckGrammarRequest`; raises InvalidRequest for a grammar that is none, and Unavailable."""
        key = hashlib.sha256(body).digest()
        lock = self._locks.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                if key not in self._verdicts:
                    self._remember(key, await self._verdict(body))
                verdict = self._verdicts[key]
                self._verdicts.move_to_end(key)
        finally:
            if not lock.locked():
                self._locks.pop(key, None)
        if verdict is not None:
            raise InvalidRequest(verdict)

    def _remember(self, key: bytes, verdict: str | None) -> None:
        self._verdicts[key] = verdict
        while len(self._verdicts) > _REMEMBERED:
            self._verdicts.popitem(last=False)

    async def _verdict(self, body: bytes) -> str | None:
        """Return what is wrong with a grammar; raises ServiceError when that cannot be found out."""
        try:
            run = partial(self._pool.run, Operation.CHECK_GRAMMAR, body)
            await with_missing_bundle(self._bundles, run(), run)
        except InvalidRequest as exc:
            return exc.message
        except ChildLost:
            return "it takes more time or memory than a grammar may"
        except ChildHung as exc:
            raise Unavailable(f"the grammar was not checked within {exc.limit_s:g} s", retryable=True) from exc
        except (ChildError, BundleUnreadable) as exc:
            raise as_service_error(exc, body) from exc
        return None
