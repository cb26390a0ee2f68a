"""Inverses of all ranks, by what defines them."""

import array_api_strict
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twin.control.task_space.linear_algebra import (
    damped_solve,
    matvec,
    pseudo_inverse,
    singular_values,
    symmetric_solve,
    truncated_inverse,
)

jax.config.update("jax_enable_x64", True)
SHAPES = pytest.mark.parametrize("shape", [(6, 7), (6, 6), (6, 5), (3, 7), (1, 1)])


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def matrices(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """(5, rows, columns): regular, of rank 1, with a row of zeros, of nothing, nearly singular."""
    result = rng.normal(size=(5, rows, columns))
    result[1] = np.outer(result[1, :, 0], result[1, 0])
    result[2, -1] = 0.0
    result[3] = 0.0
    u, s, vh = np.linalg.svd(result[4], full_matrices=False)
    s[-1] = 1e-4
    result[4] = (u * s) @ vh
    return result


@SHAPES
def test_what_makes_a_pseudo_inverse(rng, shape: tuple[int, int]) -> None:
    a = matrices(rng, *shape)
    p = pseudo_inverse(a, xp=np)
    for product, expected in ((a @ p @ a, a), (p @ a @ p, p)):
        np.testing.assert_allclose(product, expected, rtol=1e-7, atol=1e-9)
    for product in (a @ p, p @ a):
        np.testing.assert_allclose(product, product.swapaxes(1, 2), atol=1e-9)


def test_a_direction_at_the_bound_does_not_count() -> None:
    a = np.diag([2.0, 0.5, 0.25])[None]
    np.testing.assert_array_equal(truncated_inverse(a, above=0.25, xp=np)[0], np.diag([0.5, 2.0, 0.0]))
    np.testing.assert_array_equal(truncated_inverse(a, above_share=0.25, xp=np)[0], np.diag([0.5, 0.0, 0.0]))


@SHAPES
@pytest.mark.parametrize("damping", [0.3, 1e-2, 1e-7, 0.0])
def test_damped_least_squares(rng, shape: tuple[int, int], damping: float) -> None:
    a, b = matrices(rng, *shape), rng.normal(size=(5, shape[0]))
    x = damped_solve(a, b, damping**2, xp=np)
    assert np.isfinite(x).all()
    if damping:
        assert (np.linalg.norm(x, axis=1) <= np.linalg.norm(b, axis=1) / (2 * damping) * (1 + 1e-6)).all()
    if damping > 1e-3:  # the minimum of |A x - b|^2 + lambda^2 |x|^2 is where its slope is 0
        slope = matvec(a.swapaxes(1, 2), matvec(a, x, xp=np) - b, xp=np) + damping**2 * x
        np.testing.assert_allclose(slope, 0.0, atol=1e-9)


def test_damping_in_single_precision_is_as_good_as_its_inputs(rng) -> None:
    a, b = (rng.normal(size=(500, *shape)).astype(np.float32).astype(float) for shape in ((6, 7), (6,)))
    double = damped_solve(a, b, 1e-4, xp=np)
    single = damped_solve(a.astype(np.float32), b.astype(np.float32), np.float32(1e-4), xp=np)
    worst = np.abs(single - double).max(axis=1) / np.linalg.norm(double, axis=1)
    assert worst.max() < 1e-5  # without the second step 7e-5


@pytest.mark.parametrize("damping_squared", [0.0, 1e-12])
def test_a_damping_that_rounds_away_still_bounds_the_step(damping_squared: float) -> None:
    ones = np.ones((1, 6, 7), np.float32), np.ones((1, 6), np.float32)
    x = damped_solve(*ones, np.float32(damping_squared), xp=np)
    np.testing.assert_allclose(x, 1 / 7, rtol=1e-2)


def test_equations_with_an_inertia(rng) -> None:
    factor = rng.normal(size=(4, 7, 7))
    inertia, right = factor @ factor.swapaxes(1, 2) + np.eye(7), rng.normal(size=(4, 7, 3))
    inertia[1, 2, :] = inertia[1, :, 2] = 0.0
    inertia[2] = 0.0
    x = symmetric_solve(inertia, right, xp=np)
    np.testing.assert_allclose(inertia[[0, 3]] @ x[[0, 3]], right[[0, 3]], atol=1e-10)
    others = [0, 1, 3, 4, 5, 6]
    np.testing.assert_allclose((inertia[1] @ x[1])[others], right[1][others], atol=1e-10)
    np.testing.assert_allclose(x[1, 2], 0.0, atol=1e-12)
    assert (x[2] == 0).all()


@pytest.mark.parametrize("xp", [np, array_api_strict, jnp], ids=["numpy", "strict", "jax"])
def test_a_world_without_numbers_is_alone(rng, xp) -> None:
    a, b = rng.normal(size=(3, 6, 6)), rng.normal(size=(3, 6))
    a[1, 2, 3], square = np.nan, rng.normal(size=(3, 6, 6))
    square[1, 0, 0] = np.inf
    given = [xp.asarray(array) for array in (a, b, square)]
    results = (
        pseudo_inverse(given[0], xp=xp),
        truncated_inverse(given[0], above=1e-3, xp=xp),
        singular_values(given[0], xp=xp),
        damped_solve(given[0], given[1], 1e-2, xp=xp),
        symmetric_solve(given[2], given[0], xp=xp),
    )
    for result in results:
        numbers = np.isfinite(np.asarray(result).reshape(3, -1))
        assert numbers[[0, 2]].all()
        assert not numbers[1].any()


def test_it_compiles(rng) -> None:
    a, b = rng.normal(size=(3, 6, 7)), rng.normal(size=(3, 6))
    compiled = jax.jit(lambda a, b: damped_solve(a, b, 1e-4, xp=jnp))
    np.testing.assert_allclose(compiled(a, b), damped_solve(a, b, 1e-4, xp=np), rtol=1e-9)
