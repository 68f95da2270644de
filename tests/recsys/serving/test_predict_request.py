import json
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.serving.json_values import as_array
from recsys.serving.json_values import from_array
from recsys.serving.predict_request import PredictRequest
from recsys.serving.request_error import RequestError
from recsys.serving.tensor_spec import Signature
from recsys.serving.tensor_spec import TensorSpec

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")

VECTOR = TensorSpec("float32", (None, 2))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3),
    lambda parts: (
        st.lists(parts, max_size=3)
        | st.dictionaries(st.sampled_from(["b64", "x"]), parts)
    ),
    max_leaves=8,
)


def place(indices: tuple[int, ...]) -> str:
    return "x" + "".join(f"[{index}]" for index in indices)


def test_fixed_length_of_lists() -> None:
    array = as_array([[1, 2.5], [3, 4]], VECTOR, place)
    assert array.dtype == np.float32
    assert array.tolist() == [[1.0, 2.5], [3.0, 4.0]]
    with pytest.raises(RequestError, match=r"x\[1\]: expected a list of 2\."):
        as_array([[1, 2], [3]], VECTOR, place)
    with pytest.raises(RequestError, match=r"x\[1\]\[0\]: expected a finite"):
        as_array([[1, 2], ["3", 4]], VECTOR, place)


@pytest.mark.parametrize(
    ("dtype", "value", "taken"),
    [
        ("int32", 2**31 - 1, True),
        ("int32", 2**31, False),
        ("int32", -(2**31) - 1, False),
        ("bool", True, True),
        ("bool", 1, False),
        ("float64", 1e300, True),
        ("float64", 1e309, False),
        ("float32", 16777217, True),
        ("float32", -3.5e38, False),
        ("float32", True, False),
    ],
)
def test_bounds_of_types(dtype: str, value: object, taken: bool) -> None:
    spec = TensorSpec(dtype, (None,))
    if taken:
        assert as_array([value], spec, place).dtype == dtype
    else:
        with pytest.raises(RequestError, match=r"x\[0\]: expected"):
            as_array([value], spec, place)


@given(
    st.lists(JSON, min_size=1, max_size=4),
    st.sampled_from(["bool", "float32", "float64", "int32", "int64", "string"]),
    st.sampled_from([(None,), (None, None), (None, 2), (None, None, None)]),
)
def test_any_json_is_taken_whole_or_refused(
    values: list[object], dtype: str, shape: tuple[int | None, ...]
) -> None:
    with suppress(RequestError):
        array = as_array(values, TensorSpec(dtype, shape), place)
        check_array(array, values, dtype, len(shape))


def check_array(
    array: Any, values: list[object], dtype: str, rank: int
) -> None:
    assert array.ndim == rank
    assert len(array) == len(values)
    back = from_array("y", array)
    if dtype == "float32":
        # An empty list does not show how many axes would be within it.
        expected = np.array(values, float)
        expected = expected if array.size else expected.reshape(array.shape)
        np.testing.assert_allclose(array, expected, 1e-6)
    elif "b64" not in json.dumps(values):
        assert back == values


def test_texts_as_json_has_them() -> None:
    texts = np.array([["é".encode(), "x"], [b"\xff", b""]], object)
    assert from_array("y", texts) == [["é", "x"], [{"b64": "/w=="}, ""]]
    assert from_array("y_bytes", texts[1]) == [{"b64": "/w=="}, {"b64": ""}]


def test_answer_that_no_json_can_say() -> None:
    request = PredictRequest("s", True, 2, {})
    with pytest.raises(ValueError, match="the model's 'y' is not finite"):
        request.answer({"y": np.array([1.0, np.nan])})


@pytest.mark.parametrize("width", [0, 1, 3])
def test_default_of_a_list_is_as_long_as_the_others(width: int) -> None:
    spec = TensorSpec("int64", (None, None), np.array([[-1]]))
    assert read([{"tags": [7] * width}, {}], spec).tolist() == [
        [7] * width,
        [-1] * width,
    ]


def test_default_of_lists_has_to_fit() -> None:
    spec = TensorSpec("int64", (None, None), np.array([[1, 2]]))
    assert read([{}, {"tags": [7, 8]}], spec).tolist() == [[1, 2], [7, 8]]
    with pytest.raises(RequestError, match=r"\[1\].tags: expected the shape"):
        read([{}, {"tags": [7, 8, 9]}], spec)


def read(rows: list[object], tags: TensorSpec) -> Any:
    signatures = {"serving_default": Signature({"tags": tags, "n": tags}, {})}
    body = json.dumps({"instances": rows}).encode()
    return PredictRequest.from_body(body, signatures, 9).inputs["tags"]
