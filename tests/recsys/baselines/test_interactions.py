import numpy as np
import pandas as pd
import pytest

from recsys.baselines.interactions import Interactions
from tests.recsys.baselines.cases import BIG
from tests.recsys.baselines.cases import ids
from tests.recsys.baselines.cases import random_interactions


@pytest.mark.parametrize("texts", [False, True])
def test_neighbouring_ids_are_told_apart(texts: bool) -> None:
    dense, found = random_interactions(texts=texts)
    np.testing.assert_array_equal(found.matrix.toarray()[:-1], dense)
    assert found.matrix[[-1]].nnz == 0
    codes = found.codes(ids([2, 99], texts))
    assert codes.tolist() == [2, found.num_users]


def test_rows_add_up_and_pairs_do_not() -> None:
    users, items = pd.Series([1, 1, 2, None]), pd.Series([BIG + 1, BIG + 1] * 2)
    weights = np.array([1.0, 2.0, 0.5, 4.0])
    found = Interactions.of([(users, items, weights)], pd.Index([BIG, BIG + 1]))
    assert found.counts.tolist() == [0.0, 7.5]
    assert found.matrix.toarray().tolist() == [[0, 1], [0, 1], [0, 0]]
