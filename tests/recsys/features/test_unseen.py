from typing import Any

import pandas as pd
from hypothesis import given

from recsys.features.id_values import Unseen
from tests.recsys.features.id_columns import columns
from tests.recsys.features.id_columns import texts_of


def test_an_integer_is_the_text_that_it_is_written_as() -> None:
    train = pd.Series([7, 2**53 + 1, None], dtype="Int64")
    split = pd.Series(["7", "007", str(2**53), None])
    assert Unseen.of(split, train) == Unseen(3, 2 / 3, 0.5)
    assert Unseen.of(train, split) == Unseen(2, 0.5, 1 / 3)


@given(columns, columns)
def test_what_is_unseen_is_so_by_its_text(
    column: "pd.Series[Any]", train: "pd.Series[Any]"
) -> None:
    given_texts = [one for one in texts_of(column) if one is not None]
    unseen = [one for one in given_texts if one not in texts_of(train)]
    assert Unseen.of(column, train) == Unseen(
        len(set(given_texts)),
        len(set(unseen)) / max(1, len(set(given_texts))),
        len(unseen) / max(1, len(column)),
    )
