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
    num_rows: int = 60, seed: int = 0, weights: np.ndarray | None = None
) -> LabelDeviations:
    generator = np.random.default_rng(seed)
    watch = generator.integers(0, 2, num_rows).astype(float)
    kind = generator.integers(0, 3, num_rows)
    watch[generator.random(num_rows) < 0.2] = np.nan
    return LabelDeviations(
        {
            "user": generator.integers(0, USERS, num_rows),
            "item": generator.integers(0, ITEMS, num_rows),
        },
        {"user": USERS, "item": ITEMS},
        {"watch": watch[:, None], "kind": np.eye(3)[kind]},
        weights,
    )


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
    used = used & ~np.isnan(labels.targets[task][:, 0])
    weights = np.ones(len(used)) if labels.weights is None else labels.weights
    counts = [
        np.bincount(own[used], weights[used], minlength=size)
        for own, size in zip(labels.codes.values(), (USERS, ITEMS), strict=True)
    ]
    counts[0][0] = counts[1][0] = 0
    return np.log1p(np.concatenate(counts))


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
        tables[name] = (some[part] - seen.mean(axis=0)) / seen.std(axis=0)
    return tables


@pytest.mark.parametrize("weighted", [False, True])
def test_tables_are_least_squares(weighted: bool) -> None:
    weights = np.random.default_rng(1).random(60) * 2 if weighted else None
    labels = labelled(weights=weights)
    expected = reference(labels, np.full(60, True))
    for name, table in labels.tables().items():
        assert table.dtype == np.float32
        # A deviation and the rows of `watch`, three and the rows of `kind`.
        assert table.shape == (labels.num_rows[name], 6)
        # Sweeps end within 1e-3 standard deviations of a label.
        np.testing.assert_allclose(table, expected[name], atol=0.02)


def test_a_row_has_the_statistics_of_the_other_folds() -> None:
    labels = labelled()
    folds = np.random.default_rng(7).permutation(60) % 10
    statistics = labels.of_folds(seed=7)(labels.codes)
    assert statistics.shape == (60, 12)
    for row in range(60):
        tables = reference(labels, folds != folds[row])
        expected = np.concatenate(
            [tables[name][own[row]] for name, own in labels.codes.items()]
        )
        np.testing.assert_allclose(statistics[row], expected, atol=0.02)


@given(st.integers(0, 2**32 - 1))
@examples(20)
def test_labels_of_ids_that_are_alone_say_nothing(seed: int) -> None:
    """Their tables tell all of the label, and a training must not see it."""
    watch = np.random.default_rng(seed).integers(0, 2, (40, 1)).astype(float)
    watch[:2, 0] = 0, 1
    labels = LabelDeviations(
        {"user": np.arange(1, 41)}, {"user": 41}, {"watch": watch}, None
    )
    table = labels.tables()["user"][1:, 0]
    assert np.corrcoef(table, watch[:, 0])[0, 1] > 0.999
    statistics = labels.of_folds(seed=0)(labels.codes)
    assert np.all(statistics == labels.tables()["user"][0])


def test_no_label_is_no_error() -> None:
    labels = LabelDeviations(
        {"user": np.array([1, 2, 0])},
        {"user": 3},
        {"watch": np.full((3, 1), np.nan)},
        None,
    )
    assert np.all(labels.tables()["user"] == 0)
    assert np.all(labels.of_folds(seed=0)(labels.codes) == 0)
