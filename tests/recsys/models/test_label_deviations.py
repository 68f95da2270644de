"""Target statistics against least squares, and of other rows alone."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.models.label_deviations import LabelDeviations
from tests.examples import examples

pytestmark = pytest.mark.once("torch")

USERS, ITEMS = 5, 4  # Numbers, that of unknown ids among them.


def labelled(
    num_rows: int = 300, weights: np.ndarray | None = None, seed: int = 0
) -> LabelDeviations:
    """The user says something of `watch`, the item of `kind`."""
    generator = np.random.default_rng(0)
    users = generator.integers(0, USERS, num_rows)
    items = generator.integers(0, ITEMS, num_rows)
    likely = np.array([0.5, 0.1, 0.9, 0.1, 0.9])[users]
    watch = (generator.random(num_rows) < likely).astype(float)
    watch[generator.random(num_rows) < 0.2] = np.nan
    drawn = generator.integers(0, 3, num_rows)
    kind = np.where(generator.random(num_rows) < 0.8, items % 3, drawn)
    return LabelDeviations(
        {"user": users, "item": items},
        {"user": USERS, "item": ITEMS},
        {"watch": watch[:, None], "kind": np.eye(3)[kind]},
        weights,
        seed,
    )


# A deviation and the rows of `watch`, three and the rows of `kind`.
TOLD = {"user": [1, 1, 0, 0, 0, 0], "item": [0, 0, 1, 1, 1, 1]}


def least_squares(
    labels: LabelDeviations, task: str, used: npt.NDArray[np.bool_]
) -> np.ndarray:
    """The deviations `(USERS + ITEMS, classes)`, zeros for unknown ids."""
    targets = labels.targets[task]
    used = used & ~np.isnan(targets[:, 0])
    users = np.eye(USERS)[labels.codes["user"]]
    items = np.eye(ITEMS)[labels.codes["item"]]
    users[:, 0] = items[:, 0] = 0
    design = np.hstack([users, items])[used]
    weights = np.ones(len(used)) if labels.weights is None else labels.weights
    weights = weights[used]
    mean = np.average(targets[used], axis=0, weights=weights)
    weighted = design * weights[:, None]
    normal = weighted.T @ design + 3 * np.eye(USERS + ITEMS)
    return np.linalg.solve(normal, weighted.T @ (targets[used] - mean))


def counted(
    labels: LabelDeviations, task: str, used: npt.NDArray[np.bool_]
) -> np.ndarray:
    """log(1 + rows) `(USERS + ITEMS,)`, zeros for unknown ids."""
    used_rows = used.sum()
    used = used & ~np.isnan(labels.targets[task][:, 0])
    weights = np.ones(len(used)) if labels.weights is None else labels.weights
    counts = [
        np.bincount(own[used], weights[used], minlength=size)
        for own, size in zip(labels.codes.values(), (USERS, ITEMS), strict=True)
    ]
    counts[0][0] = counts[1][0] = 0
    # As many as all rows would have.
    return np.log1p(np.concatenate(counts) * len(used) / used_rows)


def reference(
    labels: LabelDeviations, used: npt.NDArray[np.bool_]
) -> dict[str, np.ndarray]:
    """The tables, standardized by what all rows have."""

    def raw(used: npt.NDArray[np.bool_]) -> np.ndarray:
        columns = []
        for task in labels.targets:
            columns += [least_squares(labels, task, used)]
            columns += [counted(labels, task, used)[:, None]]
        return np.hstack(columns)

    every, some = raw(np.full(len(used), True)), raw(used)
    tables = {}
    for name, part in (("user", slice(USERS)), ("item", slice(USERS, None))):
        seen = every[part][labels.codes[name]]
        values = (some[part] - seen.mean(axis=0)) / seen.std(axis=0)
        tables[name] = 0.2 * np.clip(values, -5, 5)
    return tables


@pytest.mark.parametrize("weighted", [False, True])
def test_tables_are_least_squares(weighted: bool) -> None:
    weights = np.random.default_rng(1).random(300) * 2 if weighted else None
    labels = labelled(weights=weights)
    expected = reference(labels, np.full(300, True))
    for name, table in labels.tables().items():
        assert table.dtype == np.float32
        assert table.shape == (labels.num_rows[name], 6)
        # Sweeps end within 1e-3 standard deviations of a label.
        wanted = expected[name] * TOLD[name]
        np.testing.assert_allclose(table, wanted, atol=0.004)


def test_a_row_has_the_statistics_of_the_other_folds() -> None:
    labels = labelled(seed=7)
    folds = np.random.default_rng(7).permutation(300) % 10
    statistics = labels.of_folds()(labels.codes)
    assert statistics.shape == (300, 12)
    tables = [reference(labels, folds != fold) for fold in range(10)]
    for row, fold in enumerate(folds):
        expected = np.concatenate(
            [
                tables[fold][name][own[row]] * TOLD[name]
                for name, own in labels.codes.items()
            ]
        )
        np.testing.assert_allclose(statistics[row], expected, atol=0.004)


def deviations(
    labels: np.ndarray, **codes: npt.NDArray[np.int_]
) -> LabelDeviations:
    sizes = {name: int(own.max()) + 1 for name, own in codes.items()}
    return LabelDeviations(
        {name: own.astype(np.int32) for name, own in codes.items()},
        sizes,
        {"watch": labels.astype(float)[:, None]},
        None,
    )


@given(st.integers(0, 2**32 - 1))
@examples(20)
def test_labels_of_ids_that_are_alone_say_nothing(seed: int) -> None:
    watch = np.random.default_rng(seed).integers(0, 2, 40)
    labels = deviations(watch, user=np.arange(1, 41))
    assert np.all(labels.tables()["user"] == 0)
    assert np.all(labels.of_folds()(labels.codes) == 0)


@given(st.integers(0, 2**32 - 1))
@examples(20)
def test_neither_do_those_that_go_by_user_and_item_together(seed: int) -> None:
    """A label would be told by how few likes the others of its id have."""
    users, items = np.random.default_rng(seed).integers(1, 13, (2, 600))
    labels = deviations(users % 2 == items % 2, user=users, item=items)
    assert np.all(labels.of_folds()(labels.codes) == 0)


def test_no_label_is_no_error() -> None:
    labels = deviations(np.full(3, np.nan), user=np.array([1, 2, 0]))
    assert np.all(labels.tables()["user"] == 0)
    assert np.all(labels.of_folds()(labels.codes) == 0)
