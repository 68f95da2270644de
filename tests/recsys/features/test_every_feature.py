import json
import subprocess
import sys
from functools import cache
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from keras import ops
from pandas.testing import assert_series_equal

from recsys.data import DataError
from recsys.features import FEATURES
from recsys.features import Feature
from recsys.features import Hash
from recsys.features import Id
from recsys.features import Ids
from recsys.features import Image
from recsys.features.feature import FittedFeature
from tests.recsys.features.cases import CASES
from tests.recsys.features.cases import KNOWN
from tests.recsys.features.cases import KNOWN_INTEGERS
from tests.recsys.features.cases import WEIGHTED_TEXTS
from tests.recsys.features.cases import encoder_of
from tests.recsys.features.cases import weighted_integers
from tests.recsys.features.id_columns import ROWS

DIM = 3


def vectors(fitted: FittedFeature, column: "pd.Series[Any]") -> Any:
    """What the experts see, with numbered rows where there is a table."""
    values = fitted.encode(column)
    rows = None
    if fitted.num_rows is not None:
        table = np.arange(fitted.num_rows * DIM, dtype="float32")
        ids = ops.convert_to_numpy(fitted.ids(ops.convert_to_tensor(values)))
        rows = ops.convert_to_tensor(table.reshape(-1, DIM)[ids])
    return ops.convert_to_numpy(
        fitted.vectors(ops.convert_to_tensor(values), rows)
    )


def restored(fitted: FittedFeature) -> FittedFeature:
    """What a saved model makes of it in another process."""
    state = json.loads(json.dumps(fitted.get_state()))
    other = fitted.kind.restore(state)
    if fitted.vocabulary is not None:  # Its ids are an asset of the file.
        assert other.vocabulary is not None
        other.vocabulary.values = fitted.vocabulary.values
    return other


@pytest.fixture(params=CASES)
def case(request: Any) -> tuple[Feature, "pd.Series[Any]"]:
    kind, column = CASES[request.param]
    return kind, kind.check(column.rename("x"), "a.csv")


Case = tuple[Feature, "pd.Series[Any]"]


def test_every_kind_of_a_table_has_a_case() -> None:
    kinds = {type(kind) for kind, _ in CASES.values()}
    assert kinds == set(FEATURES.values()) - {Image}


def test_a_checked_column_passes_the_check_unchanged(case: Case) -> None:
    kind, column = case
    assert_series_equal(kind.check(column, "a.csv"), column)


@pytest.mark.traced_once("tensorflow")
@pytest.mark.sampled(2)
def test_the_experts_see_finite_vectors_of_the_width(case: Case) -> None:
    kind, column = case
    fitted = kind.fit([column])
    seen = vectors(fitted, column)
    assert seen.shape == (len(column), fitted.width(DIM))
    assert np.isfinite(seen).all()


@pytest.mark.traced_once("tensorflow")
@pytest.mark.sampled(2)
def test_no_row_and_one_row(case: Case) -> None:
    kind, column = case
    fitted = kind.fit([column])
    for count in (0, 1):
        seen = vectors(fitted, column[:count])
        assert seen.shape == (count, fitted.width(DIM))


@pytest.mark.traced_once("tensorflow")
def test_nothing_but_missing_values(case: Case) -> None:
    kind, column = case
    nothing = kind.check(pd.Series([None, None], dtype=object), "a.csv")
    seen = vectors(kind.fit([nothing]), column)
    assert np.isfinite(seen).all()


def test_parts_teach_what_the_whole_teaches(case: Case) -> None:
    kind, column = case
    whole = kind.fit([column])
    parts = kind.fit([column[:1], column[1:1], column[1:4], column[4:]])
    np.testing.assert_allclose(
        vectors(parts, column), vectors(whole, column), rtol=1e-6
    )


def test_a_grown_feature_knows_what_it_knew_as_before(case: Case) -> None:
    """And what a further split has, behind that, where there are ids."""
    kind, column = case
    fitted = kind.fit([column[:1]])
    grown = fitted.grown([column[1:3], column[3:]])
    assert type(grown) is type(fitted)
    assert grown.kind == kind
    before, after = (one.encode(column) for one in (fitted, grown))
    if fitted.vocabulary is None or grown.vocabulary is None:
        np.testing.assert_array_equal(after, before)
        assert grown.get_state() == fitted.get_state()
        return
    known = before > 0
    assert (after[known] == before[known]).all()
    assert (after[~known] != before[~known]).any()
    everything = kind.fit([column]).vocabulary
    assert everything is not None
    assert set(grown.vocabulary.values) == set(everything.values)
    assert grown.num_rows == grown.vocabulary.size + 1
    grown.vocabulary.check("x")


def test_a_feature_grown_by_nothing_new_stays_as_it_is(case: Case) -> None:
    kind, column = case
    fitted = kind.fit([column])
    for parts in ([], [column[:0]], [column, column[2:]]):
        grown = fitted.grown(parts)
        assert grown.num_rows == fitted.num_rows
        assert_encodes_alike(grown, fitted, column)


def assert_encodes_alike(
    one: FittedFeature, other: FittedFeature, column: "pd.Series[Any]"
) -> None:
    np.testing.assert_array_equal(one.encode(column), other.encode(column))


def test_a_restored_feature_encodes_the_same(case: Case) -> None:
    kind, column = case
    fitted = kind.fit([column])
    other = restored(fitted)
    assert other.kind == kind
    assert other.raw_dtype == fitted.raw_dtype
    sample = pd.Series(fitted.sample(np.random.default_rng(0), 50))
    np.testing.assert_array_equal(other.encode(sample), fitted.encode(sample))


def test_samples_are_of_the_kind_known_and_unknown(case: Case) -> None:
    kind, column = case
    fitted = kind.fit([column])
    sample = pd.Series(fitted.sample(np.random.default_rng(0), 50))
    encoded = fitted.encode(kind.check(sample, "sample"))
    fitted.check_encoded("x", encoded)
    absent = np.isnan(encoded) | (encoded <= 0)
    assert absent.any() or not kind.has_vocabulary
    assert not absent.all()


def test_what_is_encoded_has_the_shape_of_the_kind(case: Case) -> None:
    kind, column = case
    fitted = kind.fit([column])
    with pytest.raises(DataError, match=r"feature 'x': expected .* per row"):
        fitted.check_encoded("x", fitted.encode(column)[..., None])


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="of a SavedModel"
)
def test_a_saved_model_encodes_the_same(case: Case) -> None:
    kind, column = case
    fitted = kind.fit([column])
    sample = pd.Series(fitted.sample(np.random.default_rng(0), 50))
    encode, _ = fitted.raw_encoder()
    raw = ops.convert_to_tensor(fitted.raw(sample))
    assert raw.dtype == fitted.raw_dtype
    received = ops.convert_to_numpy(encode(raw))
    expected = fitted.encode(sample)
    if fitted.raw_rank == 2:  # It may have more room behind the lists.
        received, behind = np.split(received, [expected.shape[1]], axis=1)
        assert (behind == -1).all()
        room = np.zeros((expected.ndim, 2), int)
        room[1, 1] = expected.shape[1] - received.shape[1]
        received = np.pad(received, room, constant_values=-1)
    np.testing.assert_array_equal(received, expected)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="of a SavedModel"
)
def test_a_saved_model_numbers_integers_with_weights_the_same() -> None:
    fitted = weighted_integers()
    encode, _ = fitted.raw_encoder()
    rows = fitted.kind.check(pd.Series(WEIGHTED_TEXTS), "x")
    expected = fitted.encode(rows)
    received = ops.convert_to_numpy(
        encode(ops.convert_to_tensor(fitted.raw(rows)))
    )[:, : expected.shape[1]]
    np.testing.assert_array_equal(received, expected)


def test_integers_with_weights_are_known_by_their_texts() -> None:
    fitted = weighted_integers()
    known = {str(id): place for place, id in enumerate(sorted(KNOWN_INTEGERS))}
    rows = fitted.kind.check(pd.Series(WEIGHTED_TEXTS), "x")
    for text, numbers in zip(
        WEIGHTED_TEXTS, fitted.encode(rows)[..., 0], strict=True
    ):
        ids = [item.rpartition(":")[0] for item in text.split("|")]
        expected = [known.get(id, -1) + 1 for id in ids]
        assert numbers[numbers >= 0].tolist() == expected


@pytest.mark.parametrize(
    ("kind", "train", "rows", "taken", "raw"),
    [
        (
            Id(),
            [7, 8],
            ["7", "007", None, str(2**53 + 1), str(2**63)],
            [True, False, True, True, False],
            [7, -(2**63), -(2**63), 2**53 + 1, -(2**63)],
        ),
        (
            Hash(buckets=9),
            [7, 8],
            ["7", "x"],
            [True, False],
            [7, -(2**63)],
        ),
        (
            Ids(),
            [[7, 8]],
            ["7|8", "7|x", "", "8"],
            [True, False, True, True],
            [[7, 8], [7, -(2**63)], [-(2**63)] * 2, [8, -(2**63)]],
        ),
    ],
)
def test_an_input_of_integers_has_no_place_for_other_texts(
    kind: Feature, train: list[Any], rows: Any, taken: Any, raw: Any
) -> None:
    fitted = kind.fit([kind.check(pd.Series(train), "train")])
    column = kind.check(pd.Series(rows), "test")
    assert fitted.takes(column).tolist() == taken
    assert fitted.raw(column).tolist() == raw
    # One of texts takes all.
    texts = kind.fit([column])
    assert texts.raw_dtype == "string"
    assert texts.takes(kind.check(pd.Series(train), "train")).all()


@cache
def saved_encoder_of(form: str, raw_dtype: str) -> Any:
    fitted = encoder_of(form, raw_dtype)
    return fitted, *fitted.raw_encoder()


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="of a SavedModel"
)
@pytest.mark.parametrize("raw_dtype", KNOWN)
@pytest.mark.parametrize("form", ROWS)
@given(data=st.data())
@settings(max_examples=20)
def test_an_id_is_its_text_in_a_saved_model(
    form: str, raw_dtype: str, data: st.DataObject
) -> None:
    """Whatever holds it, and whatever stands beside it."""
    fitted, encode, _ = saved_encoder_of(form, raw_dtype)
    rows = data.draw(st.lists(ROWS[form], max_size=5))
    column = fitted.kind.check(pd.Series(rows, dtype=object), "rows")
    column = column[fitted.takes(column)].reset_index(drop=True)
    expected = fitted.encode(column)
    raw = ops.convert_to_tensor(fitted.raw(column), fitted.raw_dtype)
    received = ops.convert_to_numpy(encode(raw))
    if fitted.raw_rank == 2:  # The room behind the lists may be another.
        width = min(expected.shape[1], received.shape[1])
        expected, behind = np.split(expected, [width], axis=1)
        received, more = np.split(received, [width], axis=1)
        assert (behind == -1).all()
        assert (more == -1).all()
    np.testing.assert_array_equal(received, expected)


def test_what_stands_for_a_missing_value_is_one_row(case: Case) -> None:
    kind, column = case
    fitted = kind.fit([column])
    missing = fitted.raw_missing()
    assert missing.ndim == fitted.raw_rank
    assert len(missing) == 1
    nothing = kind.check(pd.Series([None], dtype=object), "a.csv")
    np.testing.assert_array_equal(fitted.raw(nothing), missing)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="of a SavedModel"
)
def test_a_saved_model_takes_it_for_a_missing_value(case: Case) -> None:
    kind, column = case
    fitted = kind.fit([column])
    encode, _ = fitted.raw_encoder()
    received = encode(ops.convert_to_tensor(fitted.raw_missing()))
    nothing = fitted.encode(kind.check(pd.Series([None], dtype=object), "x"))
    expected = np.resize(nothing, received.shape) if nothing.size else -1
    np.testing.assert_array_equal(ops.convert_to_numpy(received), expected)


def test_columns_of_one_kind_of_value_stay_as_they_are(case: Case) -> None:
    kind, column = case
    columns = [column, column]
    assert kind.unified(columns) is columns


def test_what_is_unseen_is_told_of_ids_alone(case: Case) -> None:
    kind, column = case
    told = kind.unseen(column, column[:1])
    assert (told is not None) == kind.has_vocabulary
    if told is not None:
        assert 0 < told.share_of_rows < 1


@pytest.mark.once("torch")
def test_importing_kinds_does_not_import_keras() -> None:
    code = (
        "import sys, recsys.features, recsys.tasks;"
        "assert not {'keras', 'tensorflow', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
