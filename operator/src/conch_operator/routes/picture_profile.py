"""Pure: what a model takes of pictures: what the ModelDeployment says, where its folder holds a model that sees."""

from conch_contracts.capabilities import CAPABILITIES, Feature, Level
from conch_contracts.conditions import Reason
from conch_contracts.modeldeployment import ModelSpec
from conch_contracts.records import Dialect, ModelKind, PictureProfile
from conch_contracts.spec.multimodal import MultimodalSpec
from conch_operator.routes.encoder_profile import encodes_pictures, sees_among_texts
from conch_operator.routes.engine_contract import contract_of
from conch_operator.state import DesiredModel, SourceFacts, SourceFault

SEEING_DIALECTS = tuple(
    dialect for dialect, table in CAPABILITIES.items() if table[Feature.PICTURES].level is not Level.NO
)
"""In which a worker can show pictures to an engine."""


def picture_profile(spec: ModelSpec, facts: SourceFacts, dialect: Dialect) -> PictureProfile | None:
    """Return the profile that goes into a model's route; None for one that sees no pictures, or shall see none."""
    images = (spec.multimodal or MultimodalSpec()).images
    most = min(images.max, 1) if encodes_pictures(spec, facts) else images.max
    if not _sees(spec, facts, dialect) or most == 0:
        return None
    return PictureProfile(
        max=most,
        max_pixels=images.max_pixels,
        max_bytes=images.max_bytes,
        allowed_domains=images.allowed_domains,
        among_texts=sees_among_texts(spec, facts),
    )


def blindness(model: DesiredModel, facts: SourceFacts) -> SourceFault | None:
    """Return what is wrong where a model shall take pictures, and its folder or its engine sees none."""
    spec, dialect = model.deployment.spec, contract_of(model).dialect
    if spec.multimodal is None or spec.multimodal.images.max == 0:
        return None
    if spec.kind is ModelKind.LLM and dialect not in SEEING_DIALECTS:
        said = f"An engine of the dialect {dialect} takes text alone: remove spec.multimodal, or use another runtime."
        return SourceFault(Reason.SPEC_INVALID, said)
    if _sees(spec, facts, dialect):
        return None
    expected = "llava" if spec.kind is ModelKind.LLM else "llava or clip"
    message = (
        f"{facts.folder}/config.json describes no model that sees: expected the model_type {expected} with a "
        "vision_config. Remove spec.multimodal, or check spec.source."
    )
    return SourceFault(Reason.FILES_INVALID, message)


def _sees(spec: ModelSpec, facts: SourceFacts, dialect: Dialect) -> bool:
    as_language = spec.kind is ModelKind.LLM and dialect in SEEING_DIALECTS and facts.sees
    return as_language or sees_among_texts(spec, facts) or encodes_pictures(spec, facts)
