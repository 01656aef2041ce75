import numpy as np
import pytest
from numpy.typing import NDArray

from conch_runtime_cpu.speech.word_times import boundary_times, cheapest_way, median_filter, times_of_answer

Floats = NDArray[np.float32]


def plain_way(matrix: Floats) -> tuple[list[int], list[int]]:
    """Do the same cell by cell, as transformers does."""
    rows, columns = matrix.shape
    cost = np.full((rows + 1, columns + 1), np.inf, np.float32)
    trace = np.full((rows + 1, columns + 1), -1)
    cost[0, 0] = 0
    for j in range(1, columns + 1):
        for i in range(1, rows + 1):
            c0, c1, c2 = cost[i - 1, j - 1], cost[i - 1, j], cost[i, j - 1]
            best, step = (c0, 0) if c0 < c1 and c0 < c2 else (c1, 1) if c1 < c0 and c1 < c2 else (c2, 2)
            cost[i, j] = matrix[i - 1, j - 1] + best
            trace[i, j] = step
    i, j = rows, columns
    trace[0, :], trace[:, 0] = 2, 1
    found = []
    while i > 0 or j > 0:
        found.append((i - 1, j - 1))
        step = trace[i, j]
        i -= step in (0, 1)
        j -= step in (0, 2)
    return [row for row, _ in reversed(found)], [column for _, column in reversed(found)]


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (5, 1), (3, 3), (4, 30), (30, 4), (12, 200)])
@pytest.mark.parametrize("levels", [2, 1000])
def test_the_way_is_that_of_the_reference(shape: tuple[int, int], levels: int) -> None:
    random = np.random.default_rng(shape[0] * 1000 + shape[1])
    for _ in range(20):
        matrix = random.integers(-levels, levels, shape).astype(np.float32)
        rows, columns = cheapest_way(matrix)
        assert (rows.tolist(), columns.tolist()) == plain_way(matrix)


def test_a_median_is_taken_of_each_neighbourhood_mirrored_at_the_ends() -> None:
    values = np.array([[5, 1, 9, 2, 8, 3]], np.float32)
    assert median_filter(values, 3).tolist() == [[1, 5, 2, 8, 3, 8]]
    assert median_filter(values, 1).tolist() == values.tolist()
    assert median_filter(values[:, :3], 7).tolist() == values[:, :3].tolist()


def test_ids_begin_where_the_heads_look_before_they_are_written() -> None:
    scores = np.zeros((2, 7, 80), np.float32)
    # Of three ids that lead the last looks where the first of the text is said, and so on; one follows the text.
    for row, (begin, end) in enumerate([(0, 5), (0, 5), (0, 20), (20, 40), (40, 60), (60, 80), (0, 80)]):
        scores[:, row, begin:end] = 10
    times = boundary_times(scores, 3, 3, 7)
    assert times == pytest.approx([0, 0.4, 0.8, 1.2], abs=0.021)


def test_times_are_those_of_the_reference_for_any_attention() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        lead, texts, frames = (int(random.integers(2, most)) for most in (5, 12, 90))
        scores = random.standard_normal((3, lead + texts + 1, frames)).astype(np.float32) * 3
        shares = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
        normal = (shares - shares.mean(axis=-2, keepdims=True)) / shares.std(axis=-2, keepdims=True)
        matrix = median_filter(normal, 7).mean(axis=0)[lead - 1 : -1]
        rows, columns = plain_way(-matrix)
        jumps = [column * 0.02 for place, column in enumerate(columns) if place == 0 or rows[place] > rows[place - 1]]
        assert boundary_times(scores, lead, texts, 7) == pytest.approx(jumps, abs=1e-6)


def test_ids_that_all_look_alike_still_have_times_in_order() -> None:
    times = boundary_times(np.zeros((1, 6, 50), np.float32), 3, 3, 7)
    assert len(times) == 4
    assert list(times) == sorted(times)


def test_an_id_that_stands_for_a_time_lasts_no_time() -> None:
    boundaries = np.array([0.1, 0.5, 0.9], np.float32)
    times = times_of_answer([100, 1, 102, 102, 2, 105], 100, boundaries)
    assert times == pytest.approx([0.1, 0.1, 0.5, 0.5, 0.5, 0.9, 0.9])
