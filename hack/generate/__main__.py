"""Writes every generated file into the checkout."""

from pathlib import Path

from generate import FILES, chart_renders

ROOT = Path(__file__).parents[2]

for name, text in FILES.items():
    path = ROOT / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text(), encoding="utf-8")
    print(name)

chart_renders.main()
