from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.metrics import ScoreAccumulator
from recsys.metrics import ScoredRows
from recsys.metrics import auc
from recsys.metrics import ece
from recsys.metrics import gauc
from recsys.metrics import log_loss
from recsys.metrics import ndcg
from recsys.metrics import pr_auc
from tests.recsys.metrics.brute_force import WEIGHTED
from tests.recsys.metrics.brute_force import Row

COLUMNS = ("labels", "scores", "groups", "weights")


def accumulated(rows: list[Row], cuts: list[int]) -> ScoredRows:
    scored = ScoreAccumulator()
    for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        part = rows[start:end]
        scored.add(*([row[column] for row in part] for column in range(4)))
    return scored.rows()


def values(rows: ScoredRows) -> list[Any]:
    within = [gauc(rows), ndcg(rows, k=2)]
    of_all = [metric(rows) for metric in (auc, pr_auc, log_loss, ece)]
    return of_all + [(one.value, one.coverage) for one in within]


@given(rows=WEIGHTED, data=st.data())
def test_how_rows_are_parted_changes_no_bit(
    rows: list[Row], data: st.DataObject
) -> None:
    cuts = st.lists(st.integers(0, len(rows)), max_size=4).map(sorted)
    whole = accumulated(rows, [])
    parted = accumulated(rows, data.draw(cuts))
    for name in COLUMNS:
        one, other = getattr(whole, name), getattr(parted, name)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    assert values(whole) == values(parted)
    # Nor does it matter that they came in parts at all.
    columns = [[row[column] for row in rows] for column in range(4)]
    columns[1], columns[3] = (
        np.array(columns[column], np.float32) for column in (1, 3)
    )
    assert values(ScoredRows.of(*columns)) == values(parted)


def test_memory_of_a_row() -> None:
    scored = ScoreAccumulator()
    for _ in range(3):
        scored.add([1, 0], np.array([0.1, 0.2]), [7, 9], [0.5, 0.25])
    rows = scored.rows()
    sizes = {name: getattr(rows, name).itemsize for name in COLUMNS}
    assert sizes == {"labels": 1, "scores": 4, "groups": 4, "weights": 4}


def test_rows_may_be_asked_for_in_between() -> None:
    scored = ScoreAccumulator()
    assert len(scored.rows()) == 0
    scored.add([1], [0.5], ["a"])
    assert scored.rows().num_groups == 1
    scored.add([0, 1], [0.6, 0.7], ["b", "a"])
    for _ in range(2):
        rows = scored.rows()
        assert rows.groups.tolist() == [0, 1, 0]
        assert rows.scores.tolist() == np.float32([0.5, 0.6, 0.7]).tolist()


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"groups": ["x"]}, r"labels, scores. Received: .*groups"),
        ({"weights": [1.0]}, r"labels, scores. Received: .*weights"),
        ({"labels": [2]}, r"labels, row 1"),
        ({"scores": [np.nan]}, r"scores, row 1"),
    ],
)
def test_a_wrong_part_is_refused_and_leaves_nothing(
    part: dict[str, Any], message: str
) -> None:
    scored = ScoreAccumulator()
    scored.add([1], [0.5])
    with pytest.raises(ValueError, match=message):
        scored.add(**({"labels": [1], "scores": [0.5]} | part))
    assert len(scored.rows()) == 1


def test_groups_of_a_refused_part_are_not_remembered() -> None:
    scored = ScoreAccumulator()
    scored.add([1, 0], [0.5, 0.1], ["a", "a"])
    for groups, weights in ((["b"], [1.0]), (["b", "c"], None)):
        with pytest.raises(ValueError, match="Received"):
            scored.add([1], [0.5], groups, weights)
    assert scored.rows().num_groups == 1
    assert gauc(scored.rows()).value == 1
