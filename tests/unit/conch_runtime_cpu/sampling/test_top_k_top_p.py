import numpy as np
import pytest
from numpy.typing import NDArray

from conch_runtime_cpu.sampling.top_k_top_p import DrawSettings, draw, uniforms

# Probabilities 0.5, 0.3, 0.15, 0.05
LOGITS = np.log(np.array([[0.5, 0.3, 0.15, 0.05]], np.float32))


def _possible(*, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0) -> dict[int, float]:
    """Return how often each token is drawn over a grid of random numbers."""
    rows = 1000
    settings = DrawSettings(
        np.full(rows, temperature, np.float32),
        np.full(rows, top_k, np.int64),
        np.full(rows, top_p, np.float32),
        np.full(rows, min_p, np.float32),
    )
    drawn = draw(np.repeat(LOGITS, rows, axis=0), settings, np.arange(rows) / rows)
    tokens, counts = np.unique(drawn, return_counts=True)
    return dict(zip(tokens.tolist(), (counts / rows).tolist(), strict=True))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {0: 0.5, 1: 0.3, 2: 0.15, 3: 0.05}),
        ({"top_k": 1}, {0: 1.0}),
        ({"top_k": 2}, {0: 0.625, 1: 0.375}),
        ({"top_k": 99}, {0: 0.5, 1: 0.3, 2: 0.15, 3: 0.05}),
        ({"top_p": 0.4}, {0: 1.0}),
        ({"top_p": 0.7}, {0: 0.625, 1: 0.375}),
        ({"top_p": 0.9}, {0: 0.526, 1: 0.316, 2: 0.158}),
        ({"top_p": 0.6, "top_k": 2}, {0: 1.0}),  # of the two that top_k leaves, the first has 0.625
        ({"min_p": 0.2}, {0: 0.526, 1: 0.316, 2: 0.158}),
        ({"min_p": 1.0}, {0: 1.0}),
        ({"temperature": 0.5}, {0: 0.685, 1: 0.247, 2: 0.062, 3: 0.007}),
        ({"temperature": 1e-4}, {0: 1.0}),
    ],
)
def test_tokens_are_drawn_as_often_as_the_settings_leave(settings: dict, expected: dict[int, float]) -> None:
    assert _possible(**settings) == pytest.approx(expected, abs=0.003)


def test_rows_with_different_settings_do_not_disturb_each_other() -> None:
    settings = DrawSettings(
        np.array([1, 1, 0.01], np.float32), np.array([1, 0, 0]), np.ones(3, np.float32), np.zeros(3, np.float32)
    )
    drawn = draw(np.repeat(LOGITS, 3, axis=0), settings, np.array([0.99, 0.99, 0.99]))
    assert drawn.tolist() == [0, 3, 0]


def test_a_forbidden_token_is_never_drawn() -> None:
    logits = np.array([[-np.inf, 0.0, -np.inf]], np.float32)
    one = np.ones(1, np.float32)
    for top_p in (1.0, 0.5):
        settings = DrawSettings(one, np.zeros(1, np.int64), one * np.float32(top_p), np.zeros(1, np.float32))
        for random in (0.0, 0.5, 1 - 2**-40):
            assert draw(logits, settings, np.array([random])).tolist() == [1]


@pytest.mark.parametrize(("top_k", "top_p"), [(5, 1.0), (0, 0.5), (0, 0.999), (400, 1.0), (400, 0.9), (3, 0.9)])
@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0])
def test_a_large_vocabulary_keeps_exactly_what_sorting_all_of_it_keeps(top_k: int, top_p: float, spread: float) -> None:
    logits = (np.random.default_rng(0).standard_normal((6, 1000)) * spread).astype(np.float32)
    randoms = np.linspace(0, 0.9999, 40)
    kept = [_kept_by_sorting(row, top_k, top_p) for row in logits]
    ones = np.ones(6, np.float32)
    settings = DrawSettings(ones, np.full(6, top_k), ones * np.float32(top_p), np.zeros(6, np.float32))
    for random in randoms:
        drawn = draw(logits, settings, np.full(6, random))
        expected = [_inverted(row, ids, random) for row, ids in zip(logits, kept, strict=True)]
        assert drawn.tolist() == expected


def _kept_by_sorting(row: NDArray[np.float32], top_k: int, top_p: float) -> NDArray[np.int64]:
    order = np.argsort(-row)[: top_k or None]
    weights = np.exp((row - row.max())[order].astype(np.float64))
    count = int(np.searchsorted(np.cumsum(weights), np.float32(top_p) * weights.sum())) + 1 if top_p < 1 else len(order)
    return np.sort(order[:count])


def _inverted(row: NDArray[np.float32], ids: NDArray[np.int64], random: float) -> int:
    cumulated = np.cumsum(np.exp(row - row.max())[ids], dtype=np.float64)
    return int(ids[np.searchsorted(cumulated, random * cumulated[-1], side="right")])


def test_random_numbers_depend_on_seed_and_step_alone() -> None:
    seeds = np.array([1, 2, 2**64 - 1], np.uint64)
    steps = np.array([0, 5, 9])
    together = uniforms(seeds, steps)
    apart = [uniforms(seeds[i : i + 1], steps[i : i + 1])[0] for i in range(3)]
    assert together.tolist() == apart
    assert len({*together.tolist(), *uniforms(seeds, steps + 1).tolist()}) == 6


def test_random_numbers_are_evenly_spread() -> None:
    numbers = uniforms(np.full(10_000, 7, np.uint64), np.arange(10_000))
    counts, _ = np.histogram(numbers, bins=10, range=(0, 1))
    assert counts.min() > 850
    assert numbers.max() < 1
