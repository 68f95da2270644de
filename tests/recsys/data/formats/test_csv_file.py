import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.data.formats.csv_file import TextType


def found(*parts: list[str | None]) -> str:
    column = TextType()
    for part in parts:
        column.add(pa.array(part, pa.string()))
    return str(column.type)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "-2", None], "int64"),
        (["9223372036854775807", "-9223372036854775808"], "int64"),
        (["9223372036854775808"], "string"),
        (["007", "8"], "string"),
        (["1", "0.5"], "string"),
        (["1", "1.0"], "string"),
        (["1", "-0"], "string"),
        (["1", "+1"], "string"),
        (["true", "0"], "string"),
        (["a", "1"], "string"),
        ([None, None], "int64"),
        ([], "int64"),
    ],
)
def test_the_type_is_that_of_all_parts_in_any_division(
    texts: list[str | None], expected: str
) -> None:
    assert found(texts) == expected
    assert found(*([text] for text in texts)) == expected
    assert found(*([text] for text in reversed(texts)), []) == expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["5.0", "-7.00", None], True),
        (["5.0|7.0", "8.0"], True),
        (["5.0", "7"], False),
        (["5.0", "7.5"], False),
        (["5.0", "1e5"], False),
        (["5", "7"], False),
        ([None, None], False),
        ([], False),
    ],
)
def test_whole_numbers_written_as_floats(
    texts: list[str | None], expected: bool
) -> None:
    for parts in ([texts], [[text] for text in texts], [texts, []]):
        column = TextType()
        for part in parts:
            column.add(pa.array(part, pa.string()))
        assert column.whole_floats == expected


@given(
    st.lists(
        st.sampled_from(
            [
                *("0", "1", "-7", "01", "+1", "1e3", "0.5", "nan", "inf"),
                *("true", "False", "x", "", None),
                *("9007199254740992", "1152921504606846976", "1" + "0" * 30),
            ]
        )
    ),
    st.integers(0, 10),
)
def test_texts_can_be_cast_whatever_the_division(
    texts: list[str | None], cut: int
) -> None:
    assert found(texts[:cut], texts[cut:]) == found(texts)
    column = TextType()
    column.add(pa.array(texts, pa.string()))
    values = pa.array(texts, pa.string()).cast(column.type)
    assert values.null_count == texts.count(None)
    if str(column.type) == "int64":
        back = values.cast(pa.string()).to_pylist()
        assert np.array_equal(back, texts)
