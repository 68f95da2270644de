"""Products of vectors that say more of labels, and of other rows alone."""

from dataclasses import replace

import numpy as np
from hypothesis import example
from hypothesis import given
from hypothesis import strategies as st

from recsys.models.biased_factors import Objective
from recsys.models.biased_factors import fit_factors
from recsys.models.label_factors import LabelFactors
from tests.examples import examples

USERS, ITEMS, ROWS, WIDTH = 41, 31, 900, 2


def planted(seed: int = 0, weights: np.ndarray | None = None) -> LabelFactors:
    """Labels by signs of user and item, and labels of chance, some missing.

    The number 0 is of unknown users and items.
    """
    generator = np.random.default_rng(seed)
    users = generator.integers(0, USERS, ROWS)
    items = generator.integers(0, ITEMS, ROWS)
    signs = np.where(np.arange(USERS) % 2, 1, -1)
    liked = signs[users] * signs[items] + generator.normal(0, 0.5, ROWS)
    targets = np.stack([5 + 3 * liked, generator.normal(size=ROWS)], axis=1)
    targets[generator.random(ROWS) < 0.1, 0] = np.nan
    return LabelFactors(
        (users.astype(np.int32), items.astype(np.int32)),
        (USERS, ITEMS),
        targets,
        np.ones(ROWS) if weights is None else weights,
        (generator.permutation(ROWS) % 10).astype(np.int8),
        WIDTH,
    )


def products(labels: LabelFactors) -> np.ndarray:
    """Those of the tables `(rows, targets)`."""
    users, items = (
        table.reshape(len(table), 2, WIDTH)[own]
        for table, own in zip(labels.tables(), labels.codes, strict=True)
    )
    return (users * items).sum(axis=2)


def test_what_users_and_items_are_together_is_told() -> None:
    labels = planted()
    known = ~np.isnan(labels.targets[:, 0])
    known &= (labels.codes[0] > 0) & (labels.codes[1] > 0)
    for predicted in (products(labels), labels.of_folds):
        together = np.corrcoef(predicted[known, 0], labels.targets[known, 0])
        assert together[0, 1] > 0.7
        # Labels of chance have no vectors.
        assert not predicted[:, 1].any()
    for table in labels.tables():
        assert table.dtype == np.float32
        assert not table[0].any()


def test_tables_are_those_of_the_objective() -> None:
    weights = np.random.default_rng(1).integers(0, 3, ROWS).astype(float)
    labels = planted(weights=weights)
    used = ~np.isnan(labels.targets[:, 0]) & (weights > 0)
    y, counts = labels.targets[used, 0], weights[used]
    mean = np.average(y, weights=counts)
    deviation = np.sqrt(np.average((y - mean) ** 2, weights=counts))
    users, items = (own[used] for own in labels.codes)
    order = np.argsort(np.where(users == 0, USERS, users), kind="stable")
    objective = Objective(
        np.where(users == 0, USERS, users)[order] - 1,
        np.where(items == 0, ITEMS, items)[order] - 1,
        ((y - mean) / deviation)[order],
        counts[order],
        False,
        (10.0, 10.0, 14.0),
    )
    factors = fit_factors(objective, (USERS, ITEMS), WIDTH, sweeps=8)
    for table, side in zip(
        labels.tables(), (factors.users, factors.items), strict=True
    ):
        np.testing.assert_allclose(
            table[1:, :WIDTH], side[1:, :-1].T, atol=1e-5
        )


@given(st.integers(0, 9), st.integers(0, 2**32 - 1))
@examples(10)
def test_labels_of_a_fold_are_not_in_its_products(fold: int, seed: int) -> None:
    """Exchanged among themselves, they leave mean and deviation as they are."""
    labels = planted()
    rows = np.flatnonzero(labels.folds == fold)
    known = rows[~np.isnan(labels.targets[rows, 0])]
    targets = labels.targets.copy()
    order = np.random.default_rng(seed).permutation(known)
    targets[known, 0] = targets[order, 0]
    before = labels.of_folds
    after = replace(labels, targets=targets).of_folds
    assert before[known, 0].any()
    np.testing.assert_allclose(after[rows], before[rows], atol=1e-6)
    assert np.abs(after - before).max() > 1e-3  # But in those of others.


def test_held_vectors_stay_and_those_of_new_ids_go_with_them() -> None:
    labels = planted()
    users, items = labels.tables()
    new = [3, 8]
    items[new] = np.nan
    users[0] = items[0] = 0
    again = replace(labels, held=(users, items), seed=5)
    later_users, later_items = again.tables()
    np.testing.assert_array_equal(later_users, users)
    stayed = np.setdiff1d(np.arange(ITEMS), new)
    np.testing.assert_array_equal(later_items[stayed], items[stayed])
    # The vectors of new ids, too: they were the best for these users before.
    before = labels.tables()[1][new, :WIDTH]
    np.testing.assert_allclose(later_items[new, :WIDTH], before, atol=0.05)
    # Of labels of chance there were none, and are none.
    assert not later_items[:, WIDTH:].any()
    known = ~np.isin(labels.codes[1], new)
    np.testing.assert_allclose(
        again.of_folds[known], products(labels)[known], atol=1e-5
    )


# Of the example, what is left of the first vectors gains 1e-9 for certain.
@example(250)
@given(st.integers(0, 2**32 - 1))
@examples(10)
def test_labels_of_biases_alone_say_nothing(seed: int) -> None:
    generator = np.random.default_rng(seed)
    labels = planted(seed)
    biases = 0.3 * generator.normal(size=USERS)[labels.codes[0]]
    noise = generator.normal(size=ROWS)
    alone = replace(labels, targets=(biases + noise)[:, None])
    assert not alone.of_folds.any()
    assert not any(table.any() for table in alone.tables())


def test_no_label_is_no_error() -> None:
    labels = planted()
    none = replace(labels, targets=np.full((ROWS, 1), np.nan))
    assert not none.of_folds.any()
    assert not any(table.any() for table in none.tables())
