"""Makes the files that follow from the types in conch_contracts and from descriptions of pictures.

`make generate` writes them into the checkout.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from generate.api_page import api_page
from generate.backends_page import backends_text
from generate.chart_files import chart_crd_text, chart_pool_crd_text, contract_text, schema_text, values_page
from generate.crd import crd_text, pool_crd_text
from generate.modeldeployment_page import reference_text
from generate.openapi.document import document_text
from generate.pictures.drawing import draw
from generate.scaling_day.picture import draw_day

_PICTURES = sorted((Path(__file__).parents[2] / "docs" / "pictures").glob("*.yaml"))

FILES: Mapping[str, Callable[[], str]] = {
    "crds/modeldeployments.conch.dev.yaml": crd_text,
    "crds/enginepools.conch.dev.yaml": pool_crd_text,
    "charts/conch/files/contract.yaml": contract_text,
    "charts/conch/files/modeldeployments.yaml": chart_crd_text,
    "charts/conch/files/enginepools.yaml": chart_pool_crd_text,
    "charts/conch/values.schema.json": schema_text,
    "services/gateway/src/conch_gateway/app/openapi.json": document_text,
    "docs/api.md": api_page,
    "docs/values.md": values_page,
    "docs/modeldeployment.md": reference_text,
    "docs/backends.md": backends_text,
    "docs/pictures/scaling-day.svg": draw_day,
    **{f"docs/pictures/{description.stem}.svg": partial(draw, description) for description in _PICTURES},
}
"""Each generated file, relative to the checkout, and what makes its text."""
