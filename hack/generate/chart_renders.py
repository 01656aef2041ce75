"""Makes the golden renders of the chart: what Helm makes of some sets of values, for reviewers and for tests.

`python -m generate.chart_renders` writes them; `make generate` does so where there is a helm. The random data of
Secrets is masked; the definition of ModelDeployment, which has a file of its own, is left out.
"""

import os
import re
import sys
from pathlib import Path

from generate.helm import Helm, HelmMissing

CASES = Path(__file__).parents[2] / "tests" / "contract" / "chart"
_DATA = re.compile(r"^(  [\w.-]+): \S+$", re.MULTILINE)


def case_names() -> list[str]:
    """Return the sets of values that have a golden render."""
    return sorted(path.stem for path in CASES.glob("*.yaml"))


def golden(case: str) -> Path:
    """Return the file that holds the render of one set."""
    return CASES / "golden" / f"{case}.yaml"


def render(helm: Helm, case: str) -> str:
    """Return what a set of values renders to, without what is random."""
    rendered = helm.template("--values", CASES / f"{case}.yaml", "--set", "crds.enabled=false")
    return "---\n".join(_masked(document) for document in rendered.split("---\n"))


def _masked(document: str) -> str:
    head, data, body = document.partition("\ndata:\n")
    return head + data + _DATA.sub(r"\1: <random>", body) if "\nkind: Secret\n" in document else document


def main() -> int:
    """Write all golden renders."""
    try:
        helm = Helm.find(os.environ)  # noqa: TID251 - the edge of this program
    except HelmMissing as missing:
        print(f"The golden renders of the chart stay as they are. {missing}", file=sys.stderr)
        return 0
    for case in case_names():
        golden(case).parent.mkdir(exist_ok=True)
        golden(case).write_text(render(helm, case), encoding="utf-8")
        print(golden(case).relative_to(Path.cwd()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
