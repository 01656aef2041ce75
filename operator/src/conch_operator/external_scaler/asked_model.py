"""Pure: which model a ScaledObject means, and what one of its engines is for.

It is the ModelDeployment of the ScaledObject's own namespace that has its name, or the one that the trigger's `model`
names: nobody learns of models of another namespace.
"""

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import grpc

from conch_contracts.names import ModelId
from conch_contracts.records import ModelKind
from conch_contracts.spec.scaling import usual_target
from conch_operator.external_scaler.errors import CallRefused
from conch_operator.external_scaler.messages import ScaledObjectRef
from conch_operator.routes.engine_contract import contract_of
from conch_operator.scaling.decision import sequences_per_engine
from conch_operator.state import DesiredModel

MODEL = "model"
TARGET = "target"
_OF_KEDA = frozenset(
    {"scalerAddress", "enableTLS", "unsafeSsl", "caCert", "tlsCertFile", "tlsClientCert", "tlsClientKey"}
)
"""What KEDA reads itself and passes on: how it comes here (keda.sh, the page of the external push scaler)."""


@dataclass(frozen=True, slots=True)
class AskedModel:
    """What a trigger says."""

    id: ModelId
    target: Decimal | None = None
    """Which part of an engine's slots is to be filled; None: the usual part for its kind."""


def asked_model(ref: ScaledObjectRef) -> AskedModel:
    """Return what a trigger says; raises CallRefused."""
    unknown = sorted(ref.metadata.keys() - _OF_KEDA - {MODEL, TARGET})
    if unknown:
        raise _invalid(
            f"The trigger's metadata has {', '.join(unknown)}, which means nothing here. It may have {MODEL}, "
            f"{TARGET} and what KEDA reads itself: {', '.join(sorted(_OF_KEDA))}."
        )
    name = ref.metadata.get(MODEL, ref.name)
    if not name or not ref.namespace:
        raise _invalid("The call names no ScaledObject: its name and its namespace are needed.")
    if "/" in name:
        raise _invalid(
            f"The trigger's {MODEL} is '{name}'; it must be the name of a ModelDeployment in the ScaledObject's own "
            "namespace, without the namespace."
        )
    text = ref.metadata.get(TARGET)
    return AskedModel(ModelId(f"{ref.namespace}/{name}"), None if text is None else _target(text))


def per_engine(model: DesiredModel, asked: AskedModel) -> float:
    """Return how many sequences one engine is for; raises CallRefused where nobody else may decide how many."""
    spec = model.deployment.spec
    if spec.scaling is not None:
        raise _decided(f"The model {model.id} has spec.scaling, so Conch decides how many engines it has: remove that.")
    if spec.placement is not None:
        raise _decided(f"The model {model.id} is in an EnginePool, which decides whether it is loaded.")
    if spec.engine.external is not None:
        raise _decided(f"The engines of the model {model.id} are started by somebody else, so it cannot be scaled.")
    target = usual_target(of_language=spec.kind is ModelKind.LLM) if asked.target is None else asked.target
    return sequences_per_engine(contract_of(model).slots, float(target))


def _target(text: str) -> Decimal:
    try:
        target = Decimal(text)
        fits = 0 < target <= 1
    except InvalidOperation:
        fits = False
    if not fits:
        raise _invalid(
            f"The trigger's {TARGET} is '{text[:40]}'; it must be the part of an engine's slots that is to be filled, "
            "more than 0 and at most 1, such as 0.7."
        )
    return target


def _invalid(message: str) -> CallRefused:
    return CallRefused(grpc.StatusCode.INVALID_ARGUMENT, message)


def _decided(message: str) -> CallRefused:
    return CallRefused(grpc.StatusCode.FAILED_PRECONDITION, message)
