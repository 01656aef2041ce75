"""The picture of one simulated day: what runs, how many engines there are, and what waits."""

from collections.abc import Callable, Sequence

from generate.pictures.canvas import Canvas, Tone
from generate.scaling_day.loads import HOUR_S, shown
from generate.scaling_day.simulation import live

_LEFT, _TOP, _WIDTH, _HEIGHT, _GAP = 130.0, 24.0, 620.0, 70.0, 34.0
_SPAN_S = 300
"""So many seconds are one point."""
_HOURS = 24


def draw_day() -> str:
    """Return the SVG."""
    lived = live(shown())
    panels: tuple[tuple[str, Sequence[int], Callable[[Sequence[int]], float], Tone], ...] = (
        ("requests running", lived.running, _mean, Tone.OURS),
        ("engines", lived.engines, max, Tone.ENGINE),
        ("requests waiting", lived.waiting, max, Tone.BAD),
    )
    about = (
        "A simulated day of a model with minReplicas 0. At night there is no engine. The first request in the morning "
        "starts one; by day engines follow the load, quickly up and slowly down; a burst at noon waits for seconds."
    )
    height = _TOP + len(panels) * (_HEIGHT + _GAP)
    canvas = Canvas(about, _LEFT + _WIDTH + 24, height + 8)
    for number, (name, seconds, of, tone) in enumerate(panels):
        top = _TOP + number * (_HEIGHT + _GAP)
        values = [of(seconds[at : at + _SPAN_S]) for at in range(0, len(seconds), _SPAN_S)]
        _panel(canvas, top, name, values, tone)
    return canvas.svg()


def _panel(canvas: Canvas, top: float, name: str, values: Sequence[float], tone: Tone) -> None:
    most, bottom = max(1.0, *values), top + _HEIGHT
    canvas.text(18, top + _HEIGHT / 2, name, anchor="start", bold=True)
    canvas.line([(_LEFT, bottom), (_LEFT + _WIDTH, bottom)])
    canvas.text(_LEFT - 6, top, f"{most:.0f}", anchor="end")
    canvas.text(_LEFT - 6, bottom, "0", anchor="end")
    for hour in range(0, _HOURS + 1, 4):
        x = _LEFT + _WIDTH * hour / _HOURS
        canvas.line([(x, bottom), (x, bottom + 4)])
        canvas.text(x, bottom + 13, f"{hour}:00")
    points: list[tuple[float, float]] = []
    for place, value in enumerate(values):
        y = round(bottom - _HEIGHT * value / most, 1)
        left, right = (round(_LEFT + _WIDTH * at * _SPAN_S / (_HOURS * HOUR_S), 1) for at in (place, place + 1))
        points += [(left, y), (right, y)]
    canvas.curve(points, tone)


def _mean(seconds: Sequence[int]) -> float:
    return sum(seconds) / len(seconds)
