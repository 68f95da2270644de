"""Formulas over predictions, such as `watch^0.7 * rating`."""

import operator
import re
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from typing import NoReturn

import numpy as np

from recsys.errors.shown import did_you_mean
from recsys.errors.shown import listed

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_.]*|`[^`]+`)"
    r"|(?P<sign>[-+*/^(),]))",
    re.ASCII,
)
_LARGEST = 1000  # Characters of a formula.
_DEEPEST = 50  # Parentheses, signs and powers within each other.

_NEGATIVE = "negative"
_OPERATORS: dict[str, Callable[..., object]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "^": operator.pow,
    _NEGATIVE: operator.neg,
}
# Each is one of NumPy, of `tf.math` and of `keras.ops`, with so many arguments.
_FUNCTIONS = {
    "abs": ("abs", 1),
    "exp": ("exp", 1),
    "log": ("log", 1),
    "max": ("maximum", 2),
    "min": ("minimum", 2),
    "sqrt": ("sqrt", 1),
}


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    position: int


@dataclass(frozen=True)
class _Name:
    """Pushes the values of a name."""

    text: str


@dataclass(frozen=True)
class _Operation:
    """Replaces the values on top of the stack by one."""

    name: str
    count: int  # How many it takes.

    def __call__(self, functions: ModuleType, *operands: object) -> Any:
        if self.name in _OPERATORS:
            return _OPERATORS[self.name](*operands)
        return getattr(functions, _FUNCTIONS[self.name][0])(*operands)


class Formula:
    """A formula over numbers that have names.

    It has numbers, names, `+ - * / ^`, parentheses and the functions `abs`,
    `exp`, `log`, `sqrt`, `min` and `max`, the last two of two arguments. `^`
    is a power and goes first, from right to left: `-x^2` is `-(x^2)`. A name
    with other characters than letters, digits, `_` and `.` stands between
    backquotes, and so does that of a function.

    It is parsed and computed here: nothing in it is run as Python. All numbers
    are float64. What has no names in it is computed once, when the formula is
    parsed, and has to be finite; nothing is divided by a constant 0.

    Args:
        text: The formula, of up to 1000 characters, with up to 50 levels of
            parentheses, signs and powers within each other.
        names: The names that it may have.

    Attributes:
        text: The formula.
        used: The names that it has, in order, as the keys of a dictionary.

    Raises:
        ValueError: It is none, with the position of what is wrong, counted
            from 1.

    Example:
    >>> formula = Formula("watch^0.5 * rating", ["watch", "rating"])
    >>> float(formula({"watch": np.array(0.25), "rating": np.array(4.0)}))
    2.0
    >>> Formula("watch ** 2", ["watch"])
    Traceback (most recent call last):
    ...
    ValueError: a formula must have a number, a name, a function or '(' at \
character 8. Received: '*' in 'watch ** 2'
    >>> Formula("watch * 0^-1", ["watch"])
    Traceback (most recent call last):
    ...
    ValueError: a formula must have finite numbers at character 10. \
Received: inf, of '^' in 'watch * 0^-1'
    """

    def __init__(self, text: str, names: Sequence[str]) -> None:
        self.text = text
        self._names = list(names)
        self.used: dict[str, None] = {}
        if len(text) > _LARGEST:
            raise ValueError(
                f"a formula must have at most {_LARGEST} characters. "
                f"Received: {len(text)}"
            )
        self._tokens = list(self._read())
        self._place = self._depth = 0
        # In postfix order: a loop computes it, however many terms it has.
        self._steps: list[float | _Name | _Operation] = []
        self._sum()
        if self._next.kind != "end":
            self._refuse("an operator, or its end,")

    def __call__(
        self, values: Mapping[str, object], functions: ModuleType | None = None
    ) -> Any:
        """Computes the formula.

        Args:
            values: By name, numbers, arrays or tensors of one shape; tensors
                of float64.
            functions: Module with the functions of tensors, such as `tf.math`;
                without, NumPy computes on numbers and arrays as float64.

        Returns:
            Numbers, an array or a tensor of that shape, or one number for a
            formula without names. They are NaN or infinite where the formula
            has no value, such as a logarithm of 0; no warning is given.
        """
        if functions is not None:
            return self._computed(values, functions)
        numbers = {
            name: np.asarray(values[name], np.float64) for name in self.used
        }
        with np.errstate(all="ignore"):
            return self._computed(numbers, np)

    def _computed(
        self, values: Mapping[str, object], functions: ModuleType
    ) -> Any:
        stack: list[Any] = []
        for step in self._steps:
            if isinstance(step, _Operation):
                operands = stack[-step.count :]
                del stack[-step.count :]
                stack.append(step(functions, *operands))
            else:
                stack.append(
                    values[step.text] if isinstance(step, _Name) else step
                )
        return stack[0]

    def _read(self) -> Iterator[_Token]:
        place = 0
        while self.text[place:].strip():
            match = _TOKEN.match(self.text, place)
            if match is None:
                rest = self.text[place:]
                place += len(rest) - len(rest.lstrip())
                self._refuse_at(
                    _Token("other", self.text[place], place),
                    "a number, a name, an operator or a parenthesis",
                )
            kind = str(match.lastgroup)
            yield _Token(kind, match.group(kind), match.start(kind))
            place = match.end()
        yield _Token("end", "", len(self.text))

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place]

    def _refuse(self, expected: str) -> NoReturn:
        self._refuse_at(self._next, expected)

    def _refuse_at(
        self, token: _Token, expected: str, value: str = ""
    ) -> NoReturn:
        received = repr(token.text) if token.text else "its end"
        raise ValueError(
            f"a formula must have {expected} at character "
            f"{token.position + 1}. Received: {value}{received} in "
            f"{self.text!r}"
        )

    def _take(self, *texts: str) -> _Token | None:
        """Consumes the next sign, if it is one of these."""
        token = self._next
        if token.kind != "sign" or token.text not in texts:
            return None
        self._place += 1
        return token

    def _within(self, parse: Callable[[], None]) -> None:
        """Parses one level deeper."""
        self._depth += 1
        if self._depth > _DEEPEST:
            self._refuse(f"at most {_DEEPEST} levels, no more")
        parse()
        self._depth -= 1

    def _apply(self, operation: _Operation, token: _Token) -> None:
        """Adds an operation, or what it makes of constants."""
        operands = self._steps[-operation.count :]
        constants = [
            np.float64(operand)
            for operand in operands
            if isinstance(operand, float)
        ]
        if operation.name == "/" and isinstance(operands[1], float):
            self._check_divisor(operands[1], token)
        if len(constants) < operation.count:
            self._steps.append(operation)
            return
        del self._steps[-operation.count :]
        with np.errstate(all="ignore"):
            self._constant(operation(np, *constants), token)

    def _constant(self, number: float | np.floating, token: _Token) -> None:
        if not np.isfinite(number):
            self._refuse_at(token, "finite numbers", f"{number}, of ")
        self._steps.append(float(number))

    def _check_divisor(self, number: float, token: _Token) -> None:
        if number == 0:
            self._refuse_at(token, "divisors other than 0", "0, of ")

    def _sum(self) -> None:
        self._product()
        while sign := self._take("+", "-"):
            self._product()
            self._apply(_Operation(sign.text, 2), sign)

    def _product(self) -> None:
        self._signed()
        while sign := self._take("*", "/"):
            self._signed()
            self._apply(_Operation(sign.text, 2), sign)

    def _signed(self) -> None:
        if sign := self._take("-"):
            self._within(self._signed)
            self._apply(_Operation(_NEGATIVE, 1), sign)
            return
        self._atom()
        if sign := self._take("^"):
            self._within(self._signed)
            self._apply(_Operation(sign.text, 2), sign)

    def _atom(self) -> None:
        token = self._next
        if self._take("("):
            self._within(self._sum)
            if not self._take(")"):
                self._refuse("')', or an operator,")
        elif token.kind == "number":
            self._place += 1
            self._constant(float(token.text), token)
        elif token.kind == "name":
            self._place += 1
            self._named(token)
        else:
            self._refuse("a number, a name, a function or '('")

    def _named(self, token: _Token) -> None:
        """The values of a name, or a function of others."""
        if token.text in _FUNCTIONS and self._take("("):
            self._function(token)
            return
        name = token.text.strip("`")
        if name not in self._names:
            hint = did_you_mean(name, self._names)
            known = listed(self._names)
            self._refuse_at(token, f"one of the names {known}{hint},")
        self.used[name] = None
        self._steps.append(_Name(name))

    def _function(self, token: _Token) -> None:
        name = token.text
        _, count = _FUNCTIONS[name]
        self._within(self._sum)
        for _ in range(count - 1):
            if not self._take(","):
                self._refuse(f"',' and another argument of {name}")
            self._within(self._sum)
        if not self._take(")"):
            self._refuse(f"')' behind the arguments of {name}")
        self._apply(_Operation(name, count), token)
