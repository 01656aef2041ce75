from typing import Any

import pytest

from conch_contracts.conditions import Reason
from conch_operator.kubernetes.api.client import ApiError
from conch_operator.kubernetes.api.kinds import Kind, Object
from conch_operator.kubernetes.chat_templates import ChatTemplates, Template
from conch_operator.state import DesiredModel, SourceFault
from testkit.builders.model_deployments import desired_model

REF = {"configMapKeyRef": {"name": "templates", "key": "tiny.jinja"}}


class ConfigMaps:
    """A namespace with one ConfigMap, or none, or an API server that does not answer."""

    def __init__(self, data: dict[str, str] | None = None) -> None:
        self.data = data
        self.away = False

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        assert (kind.plural, namespace, name) == ("configmaps", "local", "templates")
        if self.away:
            raise ApiError(0, "it is away")
        return None if self.data is None else {"data": self.data}


async def of(templates: ChatTemplates, model: DesiredModel) -> Template:
    """Read one model's template."""
    return (await templates.read_all([model]))[model.id]


def model(**template: Any) -> Any:
    return desired_model(tokenizer={"chatTemplate": template} if template else {})


@pytest.mark.parametrize(
    ("template", "data", "found"),
    [
        ({}, None, None),
        ({"inline": "{{ messages }}"}, None, "{{ messages }}"),
        (REF, {"tiny.jinja": "{{ tools }}"}, "{{ tools }}"),
    ],
)
async def test_a_template_is_read_from_where_it_is_kept(
    template: dict[str, Any], data: dict[str, str] | None, found: str | None
) -> None:
    assert await of(ChatTemplates(ConfigMaps(data)), model(**template)) == found


@pytest.mark.parametrize(
    ("template", "data", "reason", "says"),
    [
        (REF, None, Reason.CONFIG_MAP_NOT_FOUND, "The ConfigMap templates with the chat template does not exist"),
        (REF, {"other": ""}, Reason.CONFIG_MAP_NOT_FOUND, "The ConfigMap templates has no key tiny.jinja"),
        (REF, {"tiny.jinja": "\n{% endif %}"}, Reason.TEMPLATE_INVALID, "tiny.jinja of the ConfigMap templates does"),
        (REF, {"tiny.jinja": "\n{% endif %}"}, Reason.TEMPLATE_INVALID, "line 2: Encountered unknown tag"),
        (REF, {"tiny.jinja": "a" * 2**18}, Reason.TEMPLATE_INVALID, "at most 131072 are allowed"),
        ({"inline": "{{"}, None, Reason.TEMPLATE_INVALID, "chatTemplate.inline does not compile: line 1"),
        ({"file": "a.jinja"}, None, Reason.TOKENIZER_INVALID, "is for laptops"),
    ],
)
async def test_row_29_what_is_wrong_with_a_template_is_named(
    template: dict[str, Any], data: dict[str, str] | None, reason: Reason, says: str
) -> None:
    found = await of(ChatTemplates(ConfigMaps(data)), model(**template))
    assert isinstance(found, SourceFault)
    assert found.reason is reason
    assert says in found.message


async def test_a_change_is_taken_up_and_an_absent_server_changes_nothing() -> None:
    maps = ConfigMaps({"tiny.jinja": "one"})
    templates, wanted = ChatTemplates(maps), model(**REF)
    assert await of(templates, wanted) == "one"
    maps.data = {"tiny.jinja": "two"}
    assert await of(templates, wanted) == "two"
    maps.away = True
    assert await of(templates, wanted) == "two"
    unknown = await of(ChatTemplates(maps), wanted)
    assert isinstance(unknown, SourceFault)
    assert "cannot be read: it is away" in unknown.message


async def test_what_a_model_that_has_gone_had_is_forgotten() -> None:
    maps = ConfigMaps({"tiny.jinja": "one"})
    templates, wanted = ChatTemplates(maps), model(**REF)
    assert await of(templates, wanted) == "one"
    maps.away = True
    templates.keep_only({wanted.id})
    assert await of(templates, wanted) == "one"
    templates.keep_only(())
    assert isinstance(await of(templates, wanted), SourceFault)
