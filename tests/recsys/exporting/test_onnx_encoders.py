"""Raw features are encoded in ONNX as they are in training."""

from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from recsys.features import Feature
from recsys.features import Hash
from recsys.features import Ids
from recsys.features.feature import FittedFeature
from recsys.features.onnx_graph import OnnxGraph
from tests.examples import examples
from tests.recsys.features.cases import CASES
from tests.recsys.features.cases import KNOWN
from tests.recsys.features.cases import WEIGHTED_TEXTS
from tests.recsys.features.cases import encoder_of
from tests.recsys.features.cases import weighted_integers
from tests.recsys.features.id_columns import ROWS

_TYPES = {
    "float32": onnx.TensorProto.FLOAT,
    "int32": onnx.TensorProto.INT32,
    "int64": onnx.TensorProto.INT64,
    "string": onnx.TensorProto.STRING,
}


def encoder(fitted: FittedFeature) -> onnxruntime.InferenceSession:
    """What encodes the input `x` in ONNX."""
    graph = OnnxGraph("raw")
    values = fitted.encode_onnx(graph, "x")
    named = [
        helper.make_node("Identity", [value.name], [f"y{index}"])
        for index, value in enumerate(values)
    ]
    model = helper.make_model(
        helper.make_graph(
            [*graph.nodes, *named],
            "encoder",
            [described("x", fitted.raw_dtype, fitted.raw_rank)],
            [
                described(f"y{index}", value.dtype, len(value.shape))
                for index, value in enumerate(values)
            ],
            graph.constants,
        ),
        ir_version=9,
        functions=list(graph.functions.values()),
        opset_imports=graph.opset_imports(),
    )
    onnx.checker.check_model(model)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )


def described(name: str, dtype: str, rank: int) -> onnx.ValueInfoProto:
    shape = [f"{name}_{axis}" for axis in range(rank)]
    return helper.make_tensor_value_info(name, _TYPES[dtype], shape)


def joined(values: list[Any]) -> Any:
    """What `encode` returns: numbers of ids with the bits of weights."""
    if len(values) == 1:
        return values[0]
    numbers, weights = values
    bits = np.where(numbers < 0, -1, weights.view(np.int32))
    return np.stack([numbers, bits], axis=-1)


def there(encoded: Any) -> list[Any]:
    """The ids of each list; where what is none stands does not matter."""
    numbers = encoded if encoded.ndim == 2 else encoded[..., 0]
    return [
        row[of_row >= 0].tolist()
        for row, of_row in zip(encoded, numbers, strict=True)
    ]


@cache
def session_of(form: str, raw_dtype: str) -> Any:
    fitted = encoder_of(form, raw_dtype)
    return fitted, encoder(fitted)


@pytest.mark.slow
@pytest.mark.parametrize("raw_dtype", KNOWN)
@pytest.mark.parametrize("form", ROWS)
@given(data=st.data())
@examples(20)
def test_an_id_is_its_text_in_onnx(
    form: str, raw_dtype: str, data: st.DataObject
) -> None:
    """Whatever holds it, and whatever stands beside it."""
    fitted, session = session_of(form, raw_dtype)
    rows = data.draw(st.lists(ROWS[form], max_size=5))
    column = fitted.kind.check(pd.Series(rows, dtype=object), "rows")
    column = column[fitted.takes(column)].reset_index(drop=True)
    received = joined(session.run(None, {"x": fitted.raw(column)}))
    assert_alike(received, fitted.encode(column), fitted)


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_encodes_the_same(name: str) -> None:
    kind, column = CASES[name]
    column = kind.check(column, "column")
    fitted = kind.fit([column])
    session = encoder(fitted)
    sample = pd.Series(fitted.sample(np.random.default_rng(0), 50))
    for rows in (column, sample, sample[:1]):
        raw, expected = fitted.raw(rows), fitted.encode(rows)
        assert_alike(joined(session.run(None, {"x": raw})), expected, fitted)
        received = joined(session.run(None, {"x": raw[:0]}))
        assert received.shape[:1] == (0,)
        assert received.dtype == expected.dtype
    missing = joined(session.run(None, {"x": fitted.raw_missing()}))
    absent = kind.check(pd.Series([None], dtype=object), "column")
    assert_alike(missing, fitted.encode(absent), fitted)


def assert_alike(received: Any, expected: Any, fitted: FittedFeature) -> None:
    if fitted.raw_rank == 2 and fitted.raw_dtype != "float32":
        assert there(received) == there(expected)
    else:
        np.testing.assert_array_equal(received, expected)


def test_hashes_of_every_length_and_sign() -> None:
    """A number that fills a word, and the one that cannot be negated."""
    numbers = [0, 9, -9, -(10**6), 10**7, 10**8, -(2**63) + 1, 2**63 - 1]
    column = pd.Series(numbers)
    fitted = Hash(buckets=2**31 - 2).fit([column])
    received = encoder(fitted).run(None, {"x": column.to_numpy()})[0]
    assert received.tolist() == fitted.encode(column).tolist()


@pytest.mark.traced_once("tensorflow")
@pytest.mark.slow
def test_hashes_of_characters_of_every_length() -> None:
    """From one to four bytes, over the end of a word, and none at all."""
    texts = ["a", "aé", "日本語", "😀é", "a\U0010ffff", "12345678", "x" * 40]
    column = pd.Series([*texts, None])
    fitted = Hash(buckets=2**31 - 2).fit([column])
    session = encoder(fitted)
    raw = fitted.raw(column)
    expected = fitted.encode(column)
    assert session.run(None, {"x": raw})[0].tolist() == expected.tolist()
    only_missing = session.run(None, {"x": raw[-1:]})[0]
    assert only_missing.tolist() == [0]


def test_weighted_ids_with_separators() -> None:
    """What stands before the last one is the id, however many there are."""
    kind: Feature = Ids(weighted=True)
    column = kind.check(pd.Series(["a:b:1|a:2|:b:3", "a::b:4"]), "column")
    rows = kind.check(pd.Series(["a:b:1|a:b:c:2|:b:3|b:5|a:4"]), "column")
    fitted = kind.fit([column])
    received = joined(encoder(fitted).run(None, {"x": fitted.raw(rows)}))
    assert there(received) == there(fitted.encode(rows))


def test_weighted_ids_among_integers() -> None:
    fitted = weighted_integers()
    session = encoder(fitted)
    rows = fitted.kind.check(pd.Series(WEIGHTED_TEXTS), "x")
    received = joined(session.run(None, {"x": fitted.raw(rows)}))
    assert there(received) == there(fitted.encode(rows))
    # One that is known is so whatever stands beside it.
    for row, text in enumerate(WEIGHTED_TEXTS):
        alone = fitted.kind.check(pd.Series([text]), "x")
        received = joined(session.run(None, {"x": fitted.raw(alone)}))
        assert there(received) == there(fitted.encode(rows))[row : row + 1]
