import re
from contextlib import suppress
from typing import Any

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
        ("a*10^400", "finite numbers at character 5. Received: inf, of '^'"),
        ("1e999", "finite numbers at character 1. Received: inf, of '1e999'"),
        ("0^-1 * a", "finite numbers at character 2. Received: inf, of '^'"),
        ("(0-1)^0.5*a", "numbers at character 6. Received: nan, of '^'"),
        ("2^2^2^2^2", "finite numbers at character 2. Received: inf, of '^'"),
        ("a + log(0)", "numbers at character 5. Received: -inf, of 'log'"),
        ("a / (1-1)", "divisors other than 0 at character 3. Received: 0, of"),
        ("a/(1e-200*1e-200)", "divisors other than 0 at character 2"),
        ("0/0", "divisors other than 0 at character 2. Received: 0, of '/'"),
        ("1e308 + 1e308 - a", "numbers at character 7. Received: inf, of '+'"),
    ],
)
def test_what_is_no_formula(text: str, message: str) -> None:
    parts = map(re.escape, message.split("..."))
    with pytest.raises(ValueError, match=".*".join(parts)):
        Formula(text, ["a", "b"])


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1 / a", [np.inf, 0.5, -1.0]),
        ("a / a", [np.nan, 1.0, 1.0]),
        ("a^-1", [np.inf, 0.5, -1.0]),
        ("a^0.5", [0.0, np.sqrt(2), np.nan]),
        ("log(a)", [-np.inf, np.log(2), np.nan]),
        ("a * 1e300 * 1e300", [0.0, np.inf, -np.inf]),
    ],
)
def test_where_predictions_give_no_value_no_warning_is_given(
    text: str, values: list[float]
) -> None:
    formula = Formula(text, ["a"])
    computed = formula({"a": np.array([0.0, 2.0, -1.0])})
    np.testing.assert_allclose(computed, values)
    for number, value in zip([0, 2, -1], values, strict=True):
        np.testing.assert_allclose(formula({"a": number}), value)


def test_numbers_are_float64_whatever_they_were() -> None:
    values = {"a": np.array([2, 3]), "b": np.array([-1, -2])}
    assert Formula("a^b", ["a", "b"])(values).tolist() == [0.5, 1 / 9]
    large = Formula("1e200 * a", ["a"])({"a": np.array([1.0], np.float32)})
    assert large.tolist() == [1e200]
    assert Formula("2^3^2", [])({}) == 512.0


def test_hundreds_of_terms() -> None:
    """They are computed by a loop, not within each other."""
    assert Formula("+".join(["a"] * 500), ["a"])({"a": 1.0}) == 500.0


def test_names_of_thousands_of_classes_are_not_all_listed() -> None:
    names = [f"kind_{number}" for number in range(100_000)]
    with pytest.raises(ValueError, match="100,000 in all") as caught:
        Formula("kin", names)
    assert len(str(caught.value)) < 1000


# Formulas with what they are in Python, of NumPy's numbers.
_NAMES = {"a": np.float64(1.5), "b": np.float64(-2.0), "c": np.float64(0.0)}
_CONSTANTS = ["0", "1", "2.5", ".5", "1e200", "3e-7"]
_LEAVES = st.sampled_from(sorted(_NAMES)).map(
    lambda name: (name, f"_NAMES['{name}']")
) | st.sampled_from(_CONSTANTS).map(lambda text: (text, f"np.float64({text})"))


def _larger(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def joined(sign: str) -> Any:
        python = "**" if sign == "^" else sign
        return lambda both: (
            f"({both[0][0]} {sign} {both[1][0]})",
            f"({both[0][1]} {python} {both[1][1]})",
        )

    pairs = st.tuples(parts, parts)
    return st.one_of(
        *(pairs.map(joined(sign)) for sign in "+-*/^"),
        pairs.map(
            lambda both: (
                f"max({both[0][0]}, {both[1][0]})",
                f"np.maximum({both[0][1]}, {both[1][1]})",
            )
        ),
        parts.map(lambda one: (f"(-{one[0]})", f"(-{one[1]})")),
        parts.map(lambda one: (f"log({one[0]})", f"np.log({one[1]})")),
    )


@given(st.recursive(_LEAVES, _larger, max_leaves=12))
def test_a_formula_is_what_it_is_in_numpy(texts: tuple[str, str]) -> None:
    text, python = texts
    with np.errstate(all="ignore"):
        expected = eval(python)
    try:
        formula = Formula(text, list(_NAMES))
    except ValueError as error:
        assert re.search("divisors|finite numbers|levels", str(error))  # noqa: PT017
        return
    np.testing.assert_equal(float(formula(_NAMES)), float(expected))


@given(st.text(alphabet="ab12.+-*/^(), `$", max_size=30))
def test_anything_is_a_formula_or_a_clear_error(text: str) -> None:
    values = {"a": np.array(1.5), "b": np.array(-2.0)}
    with suppress(ValueError), np.errstate(all="ignore"):
        assert np.ndim(Formula(text, list(values))(values)) == 0
