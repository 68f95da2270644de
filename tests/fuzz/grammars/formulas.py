"""Formulas of `--score`, compared with NumPy."""

import re
import warnings
from pathlib import Path
from random import Random

import numpy as np
import numpy.typing as npt

from recsys.retrieval.formula import Formula
from tests.fuzz import values
from tests.fuzz.grammars.outcome import outcome

_VALUES = {
    "watch": np.array([0.25, 1.0, 0.0]),
    "rating": np.array([4.0, -3.0, 0.0]),
    "add-to-cart": np.array([1e200, 1e-200, -2.0]),
    "log": np.array([1.0, 2.0, 3.0]),
}
_NAMES = ["watch", "rating", "`add-to-cart`", "`log`", "`watch`"]
_NUMBERS = [
    *("0", "1", "2", "2.5", ".5", "3.", "1e2", "7E-3", "10"),
    *("1e308", "1e-308", "400", "0.0", "1e400", "9" * 400),
]
_FUNCTIONS = {"abs": 1, "exp": 1, "log": 1, "sqrt": 1, "max": 2, "min": 2}
_PIECES = [*"()+-*/^,.` 1aE$", "**", "e5", "1_0", "٣", "\u00b2", "é", "watch"]
_NUMPY = {
    "max": np.maximum,
    "min": np.minimum,
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "float64": np.float64,
    "__builtins__": {},
}
_NAMED = {name: f"value_{place}" for place, name in enumerate(_VALUES)}


def check_formula(random: Random, folder: Path) -> tuple[str, str | None]:
    """A formula, or what was one: its values are NumPy's, or it is refused."""
    text = _sum(random, random.randrange(6))
    broken = random.random() < 0.4
    for _ in range(random.randrange(1, 4) if broken else 0):
        text = _broken(text, random)
    shown = f"formula {text[:300]!r}"
    names = list(_VALUES)
    formula, error, problem = outcome(lambda: Formula(text, names), ValueError)
    if problem:
        return shown, problem
    if error is not None:
        refused = "divisors|finite|levels|characters"
        if not broken and not re.search(refused, str(error)):
            return shown, f"a formula is refused: {error}"
        if "divisors" in str(error) or "finite" in str(error):
            return shown, _unless_without_value(text, str(error))
        return shown, None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        received, error, problem = outcome(lambda: formula(_VALUES), ValueError)
    if problem or error is not None:
        return shown, problem or f"no value: {error}"
    return shown, _difference(received, text)


def _difference(received: npt.ArrayLike, text: str) -> str | None:
    wanted = _in_numpy(text)
    if isinstance(wanted, str):
        return wanted
    expected = np.asarray(wanted)
    array = np.asarray(received)
    if array.dtype != np.float64:
        return f"a value of {array.dtype}"
    ours, numpys = np.broadcast_arrays(array, expected)
    if not np.array_equal(ours, numpys, equal_nan=True):
        return f"the value {received!r} instead of {wanted}"
    return None


def _unless_without_value(text: str, error: str) -> str | None:
    """Constants that are refused are not finite in Python either."""
    found = re.search(r"character (\d+)\. Received: (\S+), of '", error)
    if found is None:
        return f"no position: {error}"
    position = int(found[1])
    if not 1 <= position <= len(text):
        return f"a position outside of the formula: {error}"
    if found[2] not in ("inf", "-inf", "nan", "0"):
        return f"a constant that has a value is refused: {error}"
    return None


def _in_numpy(text: str) -> object:
    """What Python makes of the text, or why it makes nothing of it."""
    pattern = re.compile(
        r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
        r"|`(?P<quoted>[^`]+)`|(?P<name>[A-Za-z_][\w.]*)(?P<call>\s*\()?",
        re.ASCII,
    )

    def python(match: re.Match[str]) -> str:
        if match["number"]:
            return f"float64({match['number']!r})"
        if match["call"] and match["name"] in _FUNCTIONS:
            return f"{match['name']}("
        name = match["quoted"] or match["name"]
        return _NAMED.get(name, "?") + (match["call"] or "")

    translated = pattern.sub(python, text).replace("^", "**").strip()
    arrays = {_NAMED[name]: array for name, array in _VALUES.items()}
    try:
        with np.errstate(all="ignore"):
            value: object = eval(translated, dict(_NUMPY), arrays)
    except Exception as error:
        return f"a value of what is none in Python: {error!r}"
    return value


def _sum(random: Random, depth: int) -> str:
    what = random.randrange(10) if depth else random.randrange(2)
    space = random.choice(("", "", " ", "\t"))
    if what == 0:
        return random.choice(_NUMBERS) + space
    if what in (1, 2):
        return random.choice(_NAMES) + space
    if what == 3:
        name = random.choice(list(_FUNCTIONS))
        given = [_sum(random, depth - 1) for _ in range(_FUNCTIONS[name])]
        return f"{name}({','.join(given)})"
    if what == 4:
        return f"-{space}{_sum(random, depth - 1)}"
    if what == 5:
        return f"({space}{_sum(random, depth - 1)})"
    sign = random.choice("+-*/^")
    left, right = (_sum(random, depth - 1) for _ in range(2))
    return f"{left}{space}{sign}{space}{right}"


def _broken(text: str, random: Random) -> str:
    place = random.randrange(len(text) + 1)
    what = random.randrange(5)
    if what == 0:
        return text[:place] + text[place + 1 :]
    if what == 1:
        return text[:place] + text[place:] * random.randrange(4)
    if what == 2:
        return text[:place] + values.text(random) + text[place:]
    return text[:place] + random.choice(_PIECES) + text[place:]
