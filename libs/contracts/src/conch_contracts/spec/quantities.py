"""Amounts of CPU, memory and devices, as Kubernetes writes them: `500m`, `2`, `16Gi`."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from conch_contracts.spec.rule_types import Obeys, Rule

_AMOUNT = r"[+]?(?:[0-9]{1,18}(?:[.][0-9]{0,9})?|[.][0-9]{1,9})"
_EXPONENT = "[eE][+-]?(?:1[0-8]|0?[0-9])"
_QUANTITY_PATTERN = f"^{_AMOUNT}([KMGTPE]i|[munkMGTPE]|{_EXPONENT})?$"
_QUANTITY_MESSAGE = "must be a quantity that is not negative, such as 500m, 2 or 16Gi"
_QUANTITY = re.compile(f"({_AMOUNT})(?:([KMGTPE]i|[munkMGTPE])|({_EXPONENT}))?")
_QUANTITY_UNITS = {
    "": Decimal(1),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", start=1)},
    **{unit: Decimal(1000) ** -power for power, unit in enumerate("mun", start=1)},
}


def parse_quantity(value: object) -> str:
    """Return a quantity of Kubernetes (`500m`, `2`, `16Gi`) as the string that it was written as."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not _QUANTITY.fullmatch(text):
        raise ValueError(f'{_QUANTITY_MESSAGE}, found "{value}"')
    return text


def quantity_value(quantity: str) -> Decimal:
    """Return the number that a quantity stands for."""
    match = _QUANTITY.fullmatch(quantity)
    if match is None:
        raise ValueError(f'expected a quantity such as 500m, 2 or 16Gi, found "{quantity}"')
    return Decimal(match[1] + (match[3] or "")) * _QUANTITY_UNITS[match[2] or ""]


Quantity = Annotated[
    str,
    BeforeValidator(parse_quantity),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "minimum": 0,
            "maximum": 10**18 - 1,
            "maxLength": 32,
            "x-kubernetes-validations": [
                {"rule": f"string(self).matches('{_QUANTITY_PATTERN}')", "message": _QUANTITY_MESSAGE}
            ],
        }
    ),
]
"""An amount of CPU, memory or devices, as Kubernetes writes them."""

_LEAST_BYTES = quantity_value("1Mi")
_FRACTION = "[mun]$"
"""How an amount of thousandths ends, which is a mistake where bytes are counted."""

ByteSize = Annotated[
    Quantity,
    Obeys(
        Rule(
            cel=f"quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && !string(self).matches('{_FRACTION}')",
            message="is counted in bytes and must be at least 1Mi: write a unit such as Mi or Gi (m is a thousandth)",
            holds=lambda amount: quantity_value(amount) >= _LEAST_BYTES and not re.search(_FRACTION, amount),
        )
    ),
]
"""An amount of bytes that something useful fits into."""

_HUGE_PAGES = "hugepages-[1-9][0-9]{0,5}([KMGT]i|[kMGT])"
_RESOURCE_NAME = (
    f"cpu|memory|ephemeral-storage|{_HUGE_PAGES}|"
    "[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
)
_RESOURCE_NAMES = Obeys(
    Rule(
        cel=f"self.all(name, name.matches('^({_RESOURCE_NAME})$'))",
        message="must name resources as Kubernetes does: cpu, memory, ephemeral-storage, or one with a domain such as "
        "nvidia.com/gpu",
        holds=lambda amounts: all(re.fullmatch(_RESOURCE_NAME, name) for name in amounts),
    )
)
_NO_NAMES_OF_QUOTAS = Obeys(
    Rule(
        cel="!self.exists(name, name.startsWith('requests.'))",
        message="no resource has a name that begins with requests. but in a quota: write such as nvidia.com/gpu",
        holds=lambda amounts: not any(name.startswith("requests.") for name in amounts),
    )
)
_IN_CORES = "[0-9.+]+([mun]|[eE][+-]?[0-9]+)?"
_CORES = Obeys(
    Rule(
        cel=f"!('cpu' in self) || string(self['cpu']).matches('^{_IN_CORES}$')",
        message="cpu is counted in cores: write a number such as 2 or 500m (m is a thousandth), without another unit",
        holds=lambda amounts: re.fullmatch(_IN_CORES, amounts.get("cpu", "0")) is not None,
    )
)
_WHOLE = "[+]?[0-9]+([KMGTPE]i|[kMGTPE]|[eE][+]?[0-9]+)?"
_WHOLE_DEVICES = Obeys(
    Rule(
        cel=f"self.all(name, !name.contains('/') || string(self[name]).matches('^{_WHOLE}$'))",
        message="resources with a domain, such as nvidia.com/gpu, are counted whole: write a number such as 1",
        holds=lambda amounts: all(re.fullmatch(_WHOLE, amount) for name, amount in amounts.items() if "/" in name),
    )
)
_WHOLE_BYTES = Obeys(
    Rule(
        cel=f"self.all(name, name == 'cpu' || name.contains('/') || !string(self[name]).matches('{_FRACTION}'))",
        message="memory, ephemeral-storage and hugepages are counted in bytes: write a unit such as Mi or Gi (m is a "
        "thousandth)",
        holds=lambda amounts: (
            not any(
                re.search(_FRACTION, amount) for name, amount in amounts.items() if name != "cpu" and "/" not in name
            )
        ),
    )
)
_ENOUGH_BYTES = Obeys(
    Rule(
        cel="['memory', 'ephemeral-storage'].all(name, !(name in self) || quantity(string(self[name])).compareTo("
        "quantity('0')) == 0 || quantity(string(self[name])).compareTo(quantity('1Mi')) >= 0)",
        message="memory and ephemeral-storage are counted in bytes and must be 0 or at least 1Mi: write a unit such as "
        "Mi or Gi",
        holds=lambda amounts: (
            not any(
                0 < quantity_value(amounts.get(name, "0")) < _LEAST_BYTES for name in ("memory", "ephemeral-storage")
            )
        ),
    )
)


def _is_of_whole_pages(name: str, amount: str) -> bool:
    return quantity_value(amount) % quantity_value(name.removeprefix("hugepages-")) == 0


_PAGES = "quantity(string(self[name])).asApproximateFloat() / quantity(name.substring(10)).asApproximateFloat()"
_WHOLE_PAGES = Obeys(
    Rule(
        cel=f"self.all(name, !name.matches('^{_HUGE_PAGES}$') || {_PAGES} == double(int({_PAGES})))",
        message="hugepages come whole: write a multiple of the page's size, such as hugepages-2Mi: 4Mi",
        holds=lambda amounts: all(
            _is_of_whole_pages(name, amount) for name, amount in amounts.items() if re.fullmatch(_HUGE_PAGES, name)
        ),
    )
)
Quantities = Annotated[
    Mapping[str, Quantity],
    Field(max_length=16),
    _RESOURCE_NAMES,
    _CORES,
    _WHOLE_DEVICES,
    _WHOLE_BYTES,
    _ENOUGH_BYTES,
    _NO_NAMES_OF_QUOTAS,
    _WHOLE_PAGES,
]
"""Amounts by the name of the resource."""
