"""The messages of KEDA's external scalers, as frozen data and as bytes.

The contract is externalscaler.proto of kedacore/keda (pkg/scalers/externalscaler). Integers are what KEDA read before
it knew the floats beside them; both are sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClassesForFiles

from conch_operator.external_scaler.errors import CallRefused

SERVICE = "externalscaler.ExternalScaler"

_FILE = "externalscaler.proto"
_PACKAGE = "externalscaler"
_ENTRY = "ScalerMetadataEntry"
_NUMBERS = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
}
_FIELDS = {
    "ScaledObjectRef": ("string name", "string namespace", f"repeated ScaledObjectRef.{_ENTRY} scalerMetadata"),
    "IsActiveResponse": ("bool result",),
    "GetMetricSpecResponse": ("repeated MetricSpec metricSpecs",),
    "MetricSpec": ("string metricName", "int64 targetSize", "double targetSizeFloat"),
    "GetMetricsRequest": ("ScaledObjectRef scaledObjectRef", "string metricName"),
    "GetMetricsResponse": ("repeated MetricValue metricValues",),
    "MetricValue": ("string metricName", "int64 metricValue", "double metricValueFloat"),
}
"""Each message with its fields, numbered from 1."""


@dataclass(frozen=True, slots=True)
class ScaledObjectRef:
    """Which ScaledObject asks, and what its trigger says."""

    name: str
    namespace: str
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MetricsRequest:
    """For which metric of which ScaledObject a value is asked."""

    ref: ScaledObjectRef
    metric: str


def message_types() -> dict[str, Any]:
    """Return the class of each message, by its name."""
    file = FileDescriptorProto(name=_FILE, package=_PACKAGE, syntax="proto3")
    for name, fields in _FIELDS.items():
        file.message_type.append(_described(name, fields))
    entry = file.message_type[0].nested_type.add()
    entry.CopyFrom(_described(_ENTRY, ("string key", "string value")))
    entry.options.map_entry = True
    pool = DescriptorPool()
    pool.Add(file)
    found = GetMessageClassesForFiles([_FILE], pool)
    return {name.removeprefix(f"{_PACKAGE}."): made for name, made in found.items()}


def read_ref(raw: bytes) -> ScaledObjectRef:
    """Return which ScaledObject asks; raises CallRefused."""
    return _ref(_read("ScaledObjectRef", raw))


def read_metrics_request(raw: bytes) -> MetricsRequest:
    """Return which metric is asked for; raises CallRefused."""
    request = _read("GetMetricsRequest", raw)
    return MetricsRequest(_ref(request.scaledObjectRef), request.metricName)


def active(result: bool) -> bytes:
    """Return the message that says whether there is anything to do."""
    return _written("IsActiveResponse", result=result)


def metric_spec(metric: str, target: float) -> bytes:
    """Return the message that says for how much of a metric one engine is."""
    spec = {"metricName": metric, "targetSize": max(1, round(target)), "targetSizeFloat": target}
    return _written("GetMetricSpecResponse", metricSpecs=[spec])


def metric_value(metric: str, value: int) -> bytes:
    """Return the message that says how much there is of a metric."""
    said = {"metricName": metric, "metricValue": value, "metricValueFloat": float(value)}
    return _written("GetMetricsResponse", metricValues=[said])


def _described(name: str, fields: tuple[str, ...]) -> DescriptorProto:
    message = DescriptorProto(name=name)
    for number, text in enumerate(fields, 1):
        *words, kind, named = text.split()
        label = FieldDescriptorProto.LABEL_REPEATED if words else FieldDescriptorProto.LABEL_OPTIONAL
        described = message.field.add(name=named, number=number, label=label)
        if kind in _NUMBERS:
            described.type = _NUMBERS[kind]
        else:
            described.type, described.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    return message


_TYPES = message_types()


def _read(name: str, raw: bytes) -> Any:
    try:
        return _TYPES[name].FromString(raw)
    except DecodeError as error:
        raise CallRefused(grpc.StatusCode.INVALID_ARGUMENT, f"The message is no {name}: {error}") from error


def _ref(message: Any) -> ScaledObjectRef:
    return ScaledObjectRef(message.name, message.namespace, dict(message.scalerMetadata))


def _written(name: str, **fields: Any) -> bytes:
    raw: bytes = _TYPES[name](**fields).SerializeToString()
    return raw
