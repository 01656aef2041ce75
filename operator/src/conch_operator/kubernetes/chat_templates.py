"""The chat template that a ModelDeployment sets instead of its folder's: written into it, or kept in a ConfigMap.

A ConfigMap is read in every round, so a change of it reaches the routes with the next one. Each model's is a call of
its own: one that hangs, or takes long to compile, holds up no other, and what it said before stands meanwhile.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Protocol

from conch_contracts.conditions import Reason
from conch_contracts.names import ModelId
from conch_contracts.spec.source import ChatTemplateSpec, ConfigMapKeyRef
from conch_operator.kubernetes.api.client import ApiError
from conch_operator.kubernetes.api.kinds import CONFIG_MAP, Kind, Object
from conch_operator.model_folder.chat_template import template_fault
from conch_operator.reconcile.calls_in_flight import AWAITED, Background, CallsInFlight
from conch_operator.state import DesiredModel, SourceFault

_FILE_IS_LOCAL = "spec.tokenizer.chatTemplate.file is for laptops; use inline or configMapKeyRef on a cluster."


class Objects(Protocol):
    """Reads one object."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """Return an object, None when there is none; raises ApiError."""


_UNCHECKED = SourceFault(Reason.TEMPLATE_UNCHECKED, "The chat template is being read.")

Template = str | SourceFault | None
"""What a model sets; None: nothing; or what is wrong with it."""
_Key = tuple[ModelId, ChatTemplateSpec]


class ChatTemplates:
    """Reads templates, and remembers what a ConfigMap held while it cannot be read."""

    def __init__(self, objects: Objects, background: Background = AWAITED) -> None:
        self._objects = objects
        self._calls: CallsInFlight[_Key, Template] = CallsInFlight(background)
        self._said: dict[_Key, Template] = {}
        self._last: dict[tuple[ModelId, ConfigMapKeyRef], str] = {}

    async def read_all(self, models: Iterable[DesiredModel]) -> Mapping[ModelId, Template]:
        """Return the template of each model; those that take long say what they said last."""
        set_by = {model.id: (model, model.deployment.spec.tokenizer.chat_template) for model in models}
        keys = {(name, template): model for name, (model, template) in set_by.items() if template is not None}
        self._said |= await self._calls.run({key: partial(self._of, key[1], model) for key, model in keys.items()})
        self._said = {key: said for key, said in self._said.items() if key in keys}
        read = {name: self._said.get((name, template), _UNCHECKED) for name, template in keys}
        return {name: read.get(name) for name in set_by}

    async def _of(self, template: ChatTemplateSpec, model: DesiredModel) -> Template:
        if template.config_map_key_ref is not None:
            place = f"{template.config_map_key_ref.key} of the ConfigMap {template.config_map_key_ref.name}"
            text = await self._read(model, template.config_map_key_ref)
        else:
            place = "spec.tokenizer.chatTemplate.inline"
            inline = template.inline
            text = inline if inline is not None else SourceFault(Reason.TOKENIZER_INVALID, _FILE_IS_LOCAL)
        if isinstance(text, SourceFault):
            return text
        return await asyncio.to_thread(template_fault, text, place) or text

    def keep_only(self, models: Collection[ModelId]) -> None:
        """Forget what the ConfigMaps of all other models held."""
        self._last = {known: text for known, text in self._last.items() if known[0] in models}

    async def _read(self, model: DesiredModel, ref: ConfigMapKeyRef) -> str | SourceFault:
        known = (model.id, ref)
        try:
            found = await self._objects.get(CONFIG_MAP, model.deployment.metadata.namespace, ref.name)
        except ApiError as error:
            last = self._last.get(known)
            message = f"The ConfigMap {ref.name} cannot be read: {error}"
            return last if last is not None else SourceFault(Reason.TOKENIZER_INVALID, message)
        if found is None:
            message = f"The ConfigMap {ref.name} with the chat template does not exist. Create it."
            return SourceFault(Reason.CONFIG_MAP_NOT_FOUND, message)
        data: Mapping[str, str] = found.get("data") or {}
        if ref.key not in data:
            message = f"The ConfigMap {ref.name} has no key {ref.key} with the chat template. Add it."
            return SourceFault(Reason.CONFIG_MAP_NOT_FOUND, message)
        self._last[known] = data[ref.key]
        return data[ref.key]
