from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from recsys.models.biased_factors import BiasedFactors
from recsys.models.biased_factors import Objective
from recsys.models.biased_factors import fit_factors
from tests.examples import examples

USERS, ITEMS, WIDTH = 7, 5, 2
LOSSES = pytest.mark.parametrize("logistic", [False, True])


def objective(
    logistic: bool,
    penalties: tuple[float, float, float] = (2.0, 0.5, 1.0),
    rows: int = 80,
    seed: int = 0,
    rate: float = 0.5,
    heaviest: float = 2.0,
) -> Objective:
    """Labels of chance, of known and of unknown users and items."""
    rng = np.random.default_rng(seed)
    targets = rng.normal(1, 2, rows)
    if logistic:
        targets = np.where(rng.random(rows) < rate, 1.0, -1.0)
    return Objective(
        np.sort(rng.integers(0, USERS, rows)),
        rng.integers(0, ITEMS, rows),
        targets,
        rng.uniform(0.5, heaviest, rows),
        logistic,
        penalties,
    )


def value(minimised: Objective, factors: BiasedFactors) -> float:
    return minimised(factors, factors(minimised.users, minimised.items))


def dense(values: Any, rows: Objective) -> tuple[Any, Any]:
    """The objective as it is written, of one vector with all numbers."""
    mean, rest = values[0], values[1:].reshape(-1, 1 + WIDTH)
    users, items = rest[: USERS - 1], rest[USERS - 1 :]
    nobody = np.zeros((1, 1 + WIDTH))
    own = np.concatenate([users, nobody])[rows.users]
    other = np.concatenate([items, nobody])[rows.items]
    z = mean + own[:, 0] + other[:, 0] + (own * other)[:, 1:].sum(axis=1)
    if rows.logistic:
        losses = np.log(1 + np.exp(-2 * rows.targets * z))
    else:
        losses = (rows.targets - z) ** 2 / 2
    of_user, of_item, of_vectors = rows.penalties
    return z, (
        (rows.weights * losses).sum()
        + of_user * (users[:, 0] ** 2).sum() / 2
        + of_item * (items[:, 0] ** 2).sum() / 2
        + of_vectors * (rest[:, 1:] ** 2).sum() / 2
    )


def flat(factors: BiasedFactors) -> Any:
    """All numbers but those of whoever is unknown, one after the other."""
    known = factors.users[:, :-1].T, factors.items[:, :-1].T
    return np.concatenate([[factors.mean], *(side.ravel() for side in known)])


def test_by_hand() -> None:
    factors = BiasedFactors(
        1.0, np.array([[2.0, 0], [3, 0]]), np.array([[5.0, 0], [7, 0]])
    )
    users, items = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    assert factors(users, items).tolist() == [29, 6, 3, 1]
    scaled = factors.scaled(4.0, 0.5)(users, items)
    np.testing.assert_allclose(scaled, [116.5, 24.5, 12.5, 4.5])


@LOSSES
def test_the_value_is_as_it_is_written(logistic: bool) -> None:
    rows = objective(logistic)
    factors = fit_factors(rows, (USERS, ITEMS), WIDTH, sweeps=1)
    z, expected = dense(flat(factors), rows)
    np.testing.assert_allclose(factors(rows.users, rows.items), z)
    assert value(rows, factors) == pytest.approx(expected)


@LOSSES
def test_no_direction_leads_down_from_the_solution(logistic: bool) -> None:
    rows = objective(logistic)
    factors = fit_factors(rows, (USERS, ITEMS), WIDTH, sweeps=3000)
    solution = flat(factors)
    assert np.abs(solution).min() > 1e-6  # Nothing is left out.
    step = 1e-4
    for place in range(len(solution)):
        moved = np.zeros_like(solution)
        moved[place] = step
        up, down = (dense(solution + s * moved, rows)[1] for s in (1, -1))
        assert (up - down) / (2 * step) == pytest.approx(0, abs=1e-5)


@LOSSES
def test_biases_alone_are_the_one_minimum(logistic: bool) -> None:
    """Where vectors cost too much, the rest is convex."""
    rows = objective(logistic, (2.0, 0.5, 1e6))
    found = fit_factors(rows, (USERS, ITEMS), WIDTH, sweeps=300)
    assert np.abs(found.users[1:]).max() < 1e-9
    numbers = flat(found)
    biases = np.r_[0, 1 : len(numbers) : 1 + WIDTH]

    def with_biases(own: Any) -> Any:
        numbers = np.zeros(len(flat(found)))
        numbers[biases] = own
        return dense(numbers, rows)[1]

    best = minimize(with_biases, np.zeros(len(biases)))
    np.testing.assert_allclose(numbers[biases], best.x, atol=1e-5)


@examples(30)
@given(st.data())
def test_no_sweep_raises_the_value(data: Any) -> None:
    """Of rare labels, small penalties and heavy rows, too."""
    penalty = st.floats(1e-3, 30)
    rows = objective(
        data.draw(st.booleans()),
        data.draw(st.tuples(penalty, penalty, penalty)),
        data.draw(st.integers(1, 60)),
        data.draw(st.integers(0, 99)),
        data.draw(st.sampled_from([0.0, 0.02, 0.5])),
        data.draw(st.sampled_from([2.0, 1e6])),
    )
    values = [
        value(rows, fit_factors(rows, (USERS, ITEMS), WIDTH, sweeps=sweeps))
        for sweeps in range(1, 9)
    ]
    assert np.isfinite(values).all()
    least = np.minimum.accumulate(values)
    np.testing.assert_allclose(values, least, rtol=1e-9)


def test_labels_of_a_thousand_rows_are_found_in_few_sweeps() -> None:
    """As by Newton's method, though one in a thousand is 1."""
    users = np.repeat([0, 1], 20_000)
    targets = np.full(40_000, -1.0)
    targets[:20], targets[20_000:20_080] = 1, 1
    nobody = np.ones(40_000, int)
    rows = Objective(
        users, nobody, targets, np.ones(40_000), True, (1e-3, 1.0, 1.0)
    )
    factors = fit_factors(rows, (3, 2), 1)
    shares = 1 / (1 + np.exp(-2 * factors(users[[0, -1]], nobody[:2])))
    np.testing.assert_allclose(shares, [0.001, 0.004], rtol=1e-3)


def test_the_seed_draws_the_vectors() -> None:
    rows = objective(logistic=True)
    first, again, other = (
        fit_factors(rows, (USERS, ITEMS), WIDTH, seed) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(flat(first), flat(again))
    assert not np.allclose(flat(first), flat(other))


@LOSSES
def test_no_row_at_all(logistic: bool) -> None:
    rows = objective(logistic, rows=0)
    factors = fit_factors(rows, (USERS, ITEMS), WIDTH)
    assert not flat(factors).any()
