"""Settings of a download, read once from CONCH_* variables that the operator or `conch up` writes."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, Json

from conch_contracts.spec.source import SourceSpec
from conch_kit.addresses.rules import AddressRules
from conch_operator.download.file_selection import Selection


class DownloadProcessSettings(BaseModel):
    """The settings of one download."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Json[Any]
    """`spec.source` of the ModelDeployment, as JSON."""
    folder: Path
    """Where the files are to be."""
    selection: Selection
    """Which of the source's files are wanted."""
    limit_bytes: int | None = Field(default=None, ge=0)
    """The most that all files may have together."""
    ca_bundle: str = ""
    """Certificate authorities to trust beside those of the system, in PEM."""
    address_rules: Json[AddressRules] | None = None
    """Which addresses the source may name; None: any."""
    namespace: str = ""
    """Of the ModelDeployment, for these rules."""
    message_file: Path | None = None
    """Where the last line is written too: Kubernetes reads it from there."""

    @property
    def wanted(self) -> SourceSpec:
        """Return the source."""
        return SourceSpec.model_validate(self.source)
