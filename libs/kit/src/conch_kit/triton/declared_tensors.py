"""What a model's own config declares, and requests built from it: only tensors that exist, in the types found there.

Everyone who speaks with a backend that is not ours shares this, because deployments differ in the tensors that they
declare. `encoder_tensors` does the same for encoders.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig
from tritonclient.grpc.service_pb2 import ModelInferRequest

from conch_contracts.records import Dialect
from conch_kit.triton.errors import MalformedResponse
from conch_kit.triton.tensors import Value, add_input, add_raw

_SIGNED = frozenset({"INT8", "INT16", "INT32", "INT64"})


@dataclass(frozen=True, slots=True)
class DeclaredTensors:
    """A model's config, as far as one must know it to ask the model."""

    datatypes: Mapping[str, str]
    """Input name to KServe data type, such as UINT32."""
    batched: bool
    """Whether tensors have a leading batch dimension."""
    decoupled: bool
    required: frozenset[str] = frozenset()
    """Inputs without which the server refuses a request."""
    outputs: frozenset[str] = frozenset()
    settings: Mapping[str, str] = field(default_factory=dict)
    """The config's own parameters."""

    def first(self, names: Sequence[str]) -> str | None:
        """Return the first of these inputs that the model declares."""
        return next((name for name in names if name in self.datatypes), None)

    def is_signed(self, name: str) -> bool:
        """Return whether an input can hold a negative number."""
        return self.datatypes.get(name) in _SIGNED


def read_declared_tensors(config: ModelConfig) -> DeclaredTensors:
    """Return what one must know of a model's config."""
    datatypes = {item.name: DataType.Name(item.data_type).removeprefix("TYPE_") for item in config.input}
    return DeclaredTensors(
        datatypes={name: "BYTES" if type_ == "STRING" else type_ for name, type_ in datatypes.items()},
        batched=config.max_batch_size > 0,
        decoupled=config.model_transaction_policy.decoupled,
        required=frozenset(item.name for item in config.input if not item.optional),
        outputs=frozenset(item.name for item in config.output),
        settings={name: value.string_value for name, value in config.parameters.items()},
    )


class Inputs:
    """The tensors of one request."""

    __slots__ = ("_declared", "_lead", "_message", "_sent")

    def __init__(self, message: ModelInferRequest, declared: DeclaredTensors) -> None:
        self._message = message
        self._declared = declared
        self._lead = [1] if declared.batched else []
        self._sent: set[str] = set()

    def add(self, name: str, shape: Sequence[int], values: Sequence[Value]) -> None:
        """Add one tensor of an input that the model declares; `shape` is without the batch dimension."""
        add_input(self._message, name, self._declared.datatypes[name], [*self._lead, *shape], values)
        self._sent.add(name)

    def add_packed(self, name: str, shape: Sequence[int], raw: bytes) -> None:
        """Add one tensor whose elements are packed already."""
        add_raw(self._message, name, self._declared.datatypes[name], [*self._lead, *shape], raw)
        self._sent.add(name)

    def offer(self, names: Sequence[str], value: Value | None) -> bool:
        """Send one value where the model declares one of these inputs; return whether it does."""
        name = self._declared.first(names)
        if name is not None and value is not None:
            self.add(name, [1], [value])
        return name is not None

    def check_required(self, dialect: Dialect) -> None:
        """Raise for an input that the model needs and that nobody has given."""
        lacking = sorted(self._declared.required - self._sent)
        if lacking:
            raise MalformedResponse(
                f"The model needs the input {lacking[0]}, which the {dialect} dialect does not know."
            )
