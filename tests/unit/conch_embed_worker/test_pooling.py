import numpy as np
import pytest

from conch_contracts.records import Activation, Pooling
from conch_embed_worker import pooling

HIDDEN = np.array([[[1, 0], [3, 4], [9, 9]], [[2, 2], [4, 6], [6, 1]]], np.float32)


@pytest.mark.parametrize(
    ("how", "expected"),
    [(Pooling.MEAN, [[2, 2], [4, 3]]), (Pooling.CLS, [[1, 0], [2, 2]]), (Pooling.LAST, [[3, 4], [6, 1]])],
)
def test_padding_is_left_out(how: Pooling, expected: list[list[float]]) -> None:
    assert pooling.pool(HIDDEN, [2, 3], how).tolist() == expected


def test_vectors_that_are_finished_stay_as_they_are() -> None:
    np.testing.assert_array_equal(pooling.pool(HIDDEN[0], [2, 2, 2], Pooling.MEAN), HIDDEN[0])


def test_a_shortened_vector_is_scaled_anew() -> None:
    vectors = np.array([[3, 4, 12], [0, 0, 1]], np.float32)
    np.testing.assert_allclose(pooling.normalize(pooling.shorten(vectors, 2)), [[0.6, 0.8], [0, 0]], atol=1e-7)


@pytest.mark.parametrize("vector", [[3, 4], [0, 0], [1e-20, 0]])
def test_a_vector_is_scaled_alone_as_among_others(vector: list[float]) -> None:
    alone = np.array(vector, np.float32)
    unit = pooling.normalize(alone)
    assert unit.dtype == np.float32
    np.testing.assert_allclose(unit, pooling.normalize(alone[np.newaxis])[0], atol=1e-7)


@pytest.mark.parametrize("shape", [(4,), (2, 2)])
@pytest.mark.parametrize(
    ("number", "expected"), [(0, True), (-3e38, True), (np.nan, False), (np.inf, False), (-np.inf, False)]
)
def test_one_number_that_is_not_finite_is_found(shape: tuple[int, ...], number: float, expected: bool) -> None:
    assert pooling.finite(np.array([1, 2, number, 4], np.float32).reshape(shape)) is expected


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        (Activation.NONE, [0.0, 2.0]),
        (Activation.SIGMOID, [0.5, 0.880797]),
        (Activation.SOFTMAX, [0.119203, 0.880797]),
    ],
)
def test_logits_become_scores(activation: Activation, expected: list[float]) -> None:
    np.testing.assert_allclose(pooling.activate(np.array([[0, 2]], np.float32), activation), [expected], atol=1e-6)


@pytest.mark.parametrize("activation", [Activation.SIGMOID, Activation.SOFTMAX])
def test_large_logits_stay_finite(activation: Activation) -> None:
    assert np.isfinite(pooling.activate(np.array([[-1e9, 1e9]], np.float32), activation)).all()


@pytest.mark.parametrize(("firsts", "expected"), [(1, [0.0, 1.0, -1.0]), (2, [1.0, 0.0])])
def test_one_text_is_compared_with_each_or_each_with_its_partner(firsts: int, expected: list[float]) -> None:
    east, north = [2.0, 0.0], [0.0, 3.0]
    vectors = [east, north, east, [-1.0, 0.0]] if firsts == 1 else [east, north, east, [1.0, 0.0]]
    np.testing.assert_allclose(pooling.similarities(np.array(vectors, np.float32), firsts), expected, atol=1e-7)
