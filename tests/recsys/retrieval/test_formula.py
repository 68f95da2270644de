import re
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.retrieval.formula import Formula

VALUES = {"a": 2.0, "b": 3.0, "c.d": 5.0, "x-y z": 7.0, "log": 11.0}


def computed(text: str) -> float:
    return float(Formula(text, list(VALUES))(VALUES))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", 2.0),
        ("1e-2 + .5 + 3.", 3.51),
        ("a + b * c.d", 17.0),
        ("(a + b) * c.d", 25.0),
        ("a - b - c.d", -6.0),
        ("a / b / c.d", 2 / 3 / 5),
        ("a^b^a", 2.0**9),
        ("-a^2", -4.0),
        ("a^-1", 0.5),
        ("2*-a", -4.0),
        ("--a", 2.0),
        ("a * `x-y z`", 14.0),
        ("log(`log`) + `log`", np.log(11) + 11),
        ("max(a, min(b, 10)) + abs(-1) + sqrt(4) + exp(0)", 7.0),
    ],
)
def test_by_hand(text: str, expected: float) -> None:
    assert computed(text) == pytest.approx(expected)


def test_of_arrays() -> None:
    values = {"watch": np.array([0.25, 1.0]), "rating": np.array([4.0, 3.0])}
    formula = Formula("watch^0.5*rating", list(values))
    assert formula(values).tolist() == [2.0, 3.0]
    assert list(formula.used) == ["watch", "rating"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a number, a name, a function or '(' at character 1...its end"),
        ("a +", "character 4. Received: its end"),
        ("a b", "an operator, or its end, at character 3. Received: 'b'"),
        ("(a", "')', or an operator, at character 3"),
        ("a)", "an operator, or its end, at character 2"),
        ("a + wacth", "one of the names a, b... at character 5...'wacth'"),
        ("a $ b", "a parenthesis at character 3. Received: '$'"),
        ("min(a)", "',' and another argument of min at character 6"),
        ("log(a, b)", "')' behind the arguments of log at character 6"),
        ("__import__(1)", "one of the names"),
        ("a.real", "one of the names"),
        ("(" * 60 + "a" + ")" * 60, "at most 50 levels"),
        ("-" * 60 + "a", "at most 50 levels"),
        ("a" * 1001, "at most 1000 characters. Received: 1001"),
    ],
)
def test_what_is_no_formula(text: str, message: str) -> None:
    parts = map(re.escape, message.split("..."))
    with pytest.raises(ValueError, match=".*".join(parts)):
        Formula(text, ["a", "b"])


@given(st.text(alphabet="ab12.+-*/^(), `$", max_size=30))
def test_anything_is_a_formula_or_a_clear_error(text: str) -> None:
    values = {"a": np.array(1.5), "b": np.array(-2.0)}
    with suppress(ValueError), np.errstate(all="ignore"):
        assert np.ndim(Formula(text, list(values))(values)) == 0
