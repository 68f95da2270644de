from typing import Any
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from recsys.features import Id
from recsys.features import Ids
from recsys.features import Sequence
from recsys.features.id_list import FittedIdList
from recsys.features.list_values import is_packed
from recsys.features.list_values import packed
from recsys.features.pooling import POOLINGS
from tests.examples import examples
from tests.gradients import gradient

lists = st.lists(st.lists(st.integers(-5, 5), max_size=6), min_size=1)


def fitted(kind: Ids | Sequence, rows: list[Any]) -> FittedIdList:
    return kind.fit([kind.check(pd.Series(rows), "log.csv")])


def decoded(one: FittedIdList, encoded: Any) -> list[list[int]]:
    known = one.vocabulary.values
    return [[int(known[n - 1]) for n in row if n >= 0] for row in encoded]


@examples(100)
@given(lists)
def test_every_list_comes_back(rows: list[list[int]]) -> None:
    one = fitted(Ids(), rows)
    encoded = one.encode(one.kind.check(pd.Series(rows), "log.csv"))
    assert decoded(one, encoded) == rows
    # What is no id stands behind the ids.
    assert ((encoded[:, 1:] == -1) | (encoded[:, :-1] >= 0)).all()


@pytest.mark.slow
@examples(100)
@given(lists, st.integers(1, 4))
def test_the_first_or_the_last_of_long_lists(
    rows: list[list[int]], length: int
) -> None:
    for kind, kept in (
        (Ids(length=length), [row[:length] for row in rows]),
        (Sequence(length=length), [row[-length:] for row in rows]),
    ):
        one = fitted(kind, rows)
        encoded = one.encode(kind.check(pd.Series(rows), "log.csv"))
        assert encoded.shape == (len(rows), length)
        assert decoded(one, encoded) == kept


@examples(100)
@given(lists)
def test_a_text_says_what_a_list_says(rows: list[list[int]]) -> None:
    kind = Ids()
    texts = pd.Series(["|".join(map(str, row)) for row in rows])
    one = fitted(kind, rows)
    np.testing.assert_array_equal(
        one.encode(kind.check(texts, "log.csv")),
        one.encode(kind.check(pd.Series(rows), "log.csv")),
    )


@pytest.mark.slow
@examples(100)
@given(st.lists(st.none() | st.lists(st.integers(-5, 5)), min_size=1))
def test_packed_lists_are_those_of_the_rows(
    rows: list[list[int] | None],
) -> None:
    # Chunks as the row groups of a file, one with an offset.
    column = pa.chunked_array([rows[:1], rows[1:]], pa.list_(pa.int32()))
    column = pa.chunked_array([*column.chunks, column.chunk(1)[1:]])
    lists = pd.Series([*rows, *rows[2:]], dtype=object)
    for kind in (Ids(length=3), Sequence(length=3)):
        held = kind.check(lists, "log.csv")
        given = packed(column)
        assert given is not None
        checked = kind.check(given, "log.csv")
        assert is_packed(checked)
        one, expected = kind.fit([checked]), kind.fit([held])
        assert one.vocabulary.values.equals(expected.vocabulary.values)
        np.testing.assert_array_equal(
            one.encode(checked), expected.encode(held)
        )
        chosen = checked.iloc[::2]
        assert kind.unseen(chosen, checked) == kind.unseen(held[::2], held)
        (arrays,) = kind.unified([chosen])
        assert arrays.map(list).to_dict() == held[::2].map(list).to_dict()


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 2]),
        pa.array([[1, None], [2]]),
        pa.array([["a"]]),
        pa.array([[0.5]]),
        pa.array([[2**63]], pa.list_(pa.uint64())),
    ],
)
def test_only_lists_of_integers_are_packed(column: Any) -> None:
    assert packed(pa.chunked_array([column])) is None


def test_lists_that_are_longer_than_in_training_are_whole() -> None:
    one = fitted(Ids(), [[1], [2, 3]])
    assert one.encode(pd.Series([np.array([3, 2, 1])])).tolist() == [[3, 2, 1]]


def test_what_is_missing_in_a_list_is_left_out() -> None:
    column = Ids().check(pd.Series(["a||b", [None, "a"]]), "log.csv")
    assert [ids.tolist() for ids in column] == [["a", "b"], ["a"]]


def test_shared_ids_have_the_numbers_of_their_owner() -> None:
    owner = Id().fit([pd.Series([30, 10, 20])])
    kind = Sequence(of="item")
    one = kind.fit([kind.check(pd.Series([[20, 99]]), "a")], {"item": owner})
    assert one.num_rows is None
    assert one.encode(pd.Series([np.array([20, 99, 30])]))[0, :3].tolist() == [
        2,
        0,
        3,
    ]


numbers = st.floats(0, 100, allow_subnormal=False, width=32)
weighted_lists = st.lists(
    st.lists(st.tuples(st.integers(-5, 5), numbers), max_size=6), min_size=1
)


@pytest.mark.slow
@examples(100)
@given(weighted_lists, st.sampled_from(["mean", "sum"]))
def test_weighted_lists_are_pooled_as_by_numpy(
    rows: list[list[tuple[int, float]]], pooling: Literal["mean", "sum"]
) -> None:
    kind = Ids(weighted=True, pooling=pooling)
    texts = ["|".join(f"{id}:{weight}" for id, weight in row) for row in rows]
    column = kind.check(pd.Series(texts), "log.csv")
    one = kind.fit([column])
    values = one.encode(column)
    assert one.num_rows is not None
    table = np.random.default_rng(0).normal(size=(one.num_rows, 3))
    table = table.astype("float32")
    known = {int(id): i for i, id in enumerate(one.vocabulary.values, 1)}
    expected = np.zeros((len(rows), 3))
    for place, row in enumerate(rows):
        for id, weight in row:
            expected[place] += weight * table[known[id]]
        total = sum(weight for _, weight in row)
        if pooling == "mean" and total > 0:
            expected[place] /= total
    ids = ops.convert_to_numpy(one.ids(ops.convert_to_tensor(values)))
    received = one.vectors(
        ops.convert_to_tensor(values), ops.convert_to_tensor(table[ids])
    )
    np.testing.assert_allclose(
        ops.convert_to_numpy(received), expected, rtol=1e-4, atol=1e-4
    )


def test_the_weights_of_what_is_behind_the_end_have_no_gradient() -> None:
    """Their bits are those of no number, which would spread."""
    kind = Ids(weighted=True)
    column = kind.check(pd.Series(["a:2|b:6", ""]), "log.csv")
    one = kind.fit([column])
    values = ops.convert_to_tensor(one.encode(column))
    rows = np.arange(12, dtype="float32").reshape(2, 2, 3)

    def loss(rows: Any) -> Any:
        return ops.sum(one.vectors(values, rows))

    (received,) = gradient(loss, rows)
    expected = [[[0.25] * 3, [0.75] * 3], [[0.0] * 3] * 2]
    np.testing.assert_allclose(received, expected)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_poolings(pooling: str, rng: np.random.Generator) -> None:
    rows = rng.normal(size=(40, 5, 3)).astype("float32")
    mask = rng.random((40, 5)) < 0.5
    reference: Any = getattr(np, pooling)
    expected = np.array(
        [
            reference(one[there], axis=0) if there.any() else np.zeros(3)
            for one, there in zip(rows, mask, strict=True)
        ]
    )
    received = POOLINGS[pooling](
        ops.convert_to_tensor(rows), ops.convert_to_tensor(mask)
    )
    received = ops.convert_to_numpy(received)
    np.testing.assert_allclose(received, expected, rtol=1e-5, atol=1e-6)


def test_lists_grow_with_the_feature_whose_ids_they_are() -> None:
    """Not by ids that this one alone has, as in the first split."""
    item = Id().fit([pd.Series([7, 8])])
    kind = Sequence(of="item", pooling="attention", query="item")
    history = kind.fit([pd.Series([[7], [9, 8]])], {"item": item})
    grown_item = item.grown([pd.Series([5])])
    grown = history.grown([pd.Series([[6, 5, 7]])], {"item": grown_item})
    assert grown.vocabulary is grown_item.vocabulary
    assert (grown.of, grown.query, grown.num_rows) == ("item", "item", None)
    assert grown.encode(pd.Series([[6, 5, 7]]))[0, :3].tolist() == [0, 3, 1]


def test_the_length_and_the_count_of_lists_stay() -> None:
    one = fitted(Ids(min_count=2), [[1, 1], [2]])
    grown = one.grown([pd.Series([[3, 3, 2, 4], [2]])])
    assert grown.vocabulary.values.tolist() == [1, 2, 3]
    assert grown.get_state()["length"] == 2


@pytest.mark.once("torch")
@pytest.mark.parametrize("pooling", POOLINGS)
def test_pooling_makes_no_tensor_on_the_processor(pooling: str) -> None:
    from tests.named_devices import NamedDevices

    rows = ops.ones((2, 3, 4))
    with NamedDevices():
        POOLINGS[pooling](rows, ops.ones((2, 3), "bool"))
