"""Frames of streams of the two completion APIs that show details: ids, usage so far, a compatibility profile's fields.

Each frame is built whole, which takes some microseconds more than `plain_chunks` does; only requests with details pay
for it.
"""

from collections.abc import Callable, Sequence

import orjson

from conch_contracts.messages.generation import Api, Details, GenerateRequest, Usage
from conch_contracts.records import Profile
from conch_kit.json_bytes import json_bytes
from conch_llm_worker.bodies.chat_message import MessageParts
from conch_llm_worker.bodies.logprobs import Json, chat_logprobs, completion_logprobs
from conch_llm_worker.bodies.shared_fields import finish_fields, prompt_ids, usage_fields
from conch_llm_worker.bodies.token_texts import RawText, prompt_text, shows_texts
from conch_llm_worker.frames.chat_delta import delta_of
from conch_llm_worker.frames.stream_endings import ChunkEnds
from conch_llm_worker.generation.choice_update import ChoiceUpdate
from conch_llm_worker.text.vocabulary import Vocabulary

Fields = dict[str, Json]

_ALWAYS: Fields = {"tool_calls": None, "prompt_token_ids": None, "completion_token_ids": None}
_IN_DELTAS: Fields = {"content": "", "reasoning_content": "", "reasoning": "", **_ALWAYS}
_IN_TEXTS: Fields = {"reasoning_content": "", **_ALWAYS}
"""What each frame of a FastDeploy server has, whether or not there is anything to say: its clients read it unasked."""


class DetailedFrames(ChunkEnds):
    """Frames of either API."""

    def __init__(
        self, request: GenerateRequest, details: Details, vocabulary: Vocabulary, clock: Callable[[], float]
    ) -> None:
        super().__init__(include_usage=request.include_usage)
        self._request = request
        self._details = details
        self._vocabulary = vocabulary
        self._clock = clock
        self._began = clock()
        self._chat = request.api is Api.CHAT
        self._prompt_tokens = sum(len(prompt.ids) for prompt in request.prompts)
        self._texts: dict[int, RawText] | None = {} if shows_texts(request) else None
        self._completion_tokens = 0
        self._reasoning_tokens = 0 if request.parsing is not None and request.parsing.thinking is not None else None

    def opening(self, index: int) -> bytes:
        """Return the role frame; of a completion only the one that shows the prompt's ids."""
        ids: Fields = {"prompt_token_ids": prompt_ids(self._request, index)} if self._details.token_ids else {}
        text = prompt_text(self._request, index, self._vocabulary)
        texts: Fields = {} if text is None else {"prompt_tokens": text}
        if self._chat:
            delta: Fields = {"role": self._request.role, "content": ""}
            nothing_yet: Fields = {"completion_token_ids": None} if ids else {}
            return self._frame([self._choice(index, {"delta": delta | ids | texts | nothing_yet})], ids)
        if not ids:
            return b""
        # Clients add up the lists of all frames, so this one has them too.
        nothing: Fields = {"completion_token_ids": [], "token_ids": []}
        if self._request.logprobs:
            nothing["logprobs"] = completion_logprobs((), self._vocabulary, as_ids=False)
        return self._frame([self._choice(index, {"text": "", **nothing, **ids, **texts})])

    def update(self, index: int, update: ChoiceUpdate) -> bytes:
        """Return the frames of one update."""
        self._completion_tokens += update.tokens
        if self._reasoning_tokens is not None:
            self._reasoning_tokens += update.reasoning_tokens
        return self._chat_update(index, update) if self._chat else self._completion_update(index, update)

    def usage(self, usage: Usage) -> bytes:
        """Return the frame without choices."""
        return self._frame([], {"usage": usage_fields(usage)})

    def _chat_update(self, index: int, update: ChoiceUpdate) -> bytes:
        frames, ids, entries = list[bytes](), self._ids(update), update.entries
        made = self._made(index, update, ids)
        for delta in self._deltas(update, ids):
            shown: Fields = {"delta": delta}
            if ids:
                delta |= made
                shown["token_ids"] = ids
            if self._request.logprobs and entries:
                shown["logprobs"] = chat_logprobs(entries, self._vocabulary, as_ids=self._details.tokens_as_ids)
            frames.append(self._frame([self._choice(index, shown)]))
            ids, entries = [], ()
        if update.finish is not None:
            delta = {"content": "", **(made if ids else {})}
            last: Fields = {"token_ids": ids} if ids else {}
            end: Fields = {"delta": delta, **last, **finish_fields(update.finish, self._details)}
            frames.append(self._frame([self._choice(index, end)], self._last_usage()))
        return b"".join(frames)

    def _deltas(self, update: ChoiceUpdate, ids: Sequence[Json]) -> list[Fields]:
        """Return what each frame of an update says; ids and log probabilities come with the first, or alone."""
        deltas: list[Fields] = [orjson.loads(delta) for delta in map(delta_of, update.events) if delta is not None]
        if update.text:
            deltas.append({"content": update.text})
        if not deltas and (update.entries or (ids and update.finish is None)):
            deltas.append({"content": ""})
        return deltas

    def _completion_update(self, index: int, update: ChoiceUpdate) -> bytes:
        ids = self._ids(update)
        parts = MessageParts()
        parts.add(update.events)
        text = update.text + "".join(parts.content)
        if not (text or parts.thought or update.entries or ids or update.finish is not None):
            return b""
        shown: Fields = {"text": text}
        if parts.thought is not None:
            shown["reasoning_content"] = parts.thought
        if self._request.logprobs and update.entries:
            as_ids = self._details.tokens_as_ids
            shown["logprobs"] = completion_logprobs(update.entries, self._vocabulary, as_ids=as_ids)
        if ids:
            shown |= {**self._made(index, update, ids), "token_ids": ids}
        if update.finish is None:
            return self._frame([self._choice(index, shown)])
        end = finish_fields(update.finish, self._details)
        if self._details.profile is not Profile.DENGLIN:
            return self._frame([self._choice(index, shown | end)], self._last_usage())
        first = self._frame([self._choice(index, shown | end)])
        return first + self._frame([self._choice(index, {"text": "", **end})], self._last_usage())

    def _choice(self, index: int, fields: Fields) -> Json:
        choice: Fields = {"index": index, "logprobs": None, "finish_reason": None, **fields}
        if self._details.profile is not Profile.FASTDEPLOY:
            return choice
        if isinstance(delta := choice.get("delta"), dict):
            choice["delta"] = {**_IN_DELTAS, **delta}
        else:
            choice = {**_IN_TEXTS, **choice}
        choice["arrival_time"] = round(self._clock() - self._began, 6)
        return choice

    def _ids(self, update: ChoiceUpdate) -> list[Json]:
        return list(update.ids) if self._details.token_ids else []

    def _made(self, index: int, update: ChoiceUpdate, ids: list[Json]) -> Fields:
        """Return the ids of an update, and their text where it is shown."""
        made: Fields = {"completion_token_ids": ids}
        if self._texts is None:
            return made
        if index not in self._texts:
            self._texts[index] = RawText(self._vocabulary, self._request.sampling.eos_token_ids)
        return made | {"completion_tokens": self._texts[index].add(update.ids, last=update.finish is not None)}

    def _last_usage(self) -> Fields:
        """Return the usage that this deployment shows with a choice's end."""
        shown = self._details.final_usage
        if shown is None:
            shown = self._details.profile is Profile.DENGLIN
        return {"usage": self._usage_so_far()} if shown else {}

    def _usage_so_far(self) -> Json:
        return usage_fields(
            Usage(
                prompt_tokens=self._prompt_tokens,
                completion_tokens=self._completion_tokens,
                reasoning_tokens=self._reasoning_tokens,
            )
        )

    def _frame(self, choices: list[Json], fields: Fields | None = None) -> bytes:
        request = self._request
        frame: Fields = {
            "id": request.response_id,
            "object": "chat.completion.chunk" if self._chat else "text_completion",
            "created": request.created,
            "model": request.model,
            "choices": choices,
        }
        if request.fingerprint is not None:
            frame["system_fingerprint"] = request.fingerprint
        if self._details.service_tier is not None:
            frame["service_tier"] = self._details.service_tier
        if self._details.continuous_usage:
            frame["usage"] = self._usage_so_far()
        elif request.include_usage:
            frame["usage"] = None
        return b"data: " + json_bytes(frame | (fields or {})) + b"\n\n"
