"""Formulas over predictions, such as `watch^0.7 * rating`."""

import operator
import re
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from typing import NoReturn

from recsys.nearest import did_you_mean

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_.]*|`[^`]+`)"
    r"|(?P<sign>[-+*/^(),]))",
    re.ASCII,
)
_LARGEST = 1000  # Characters of a formula.
_DEEPEST = 50  # Parentheses, signs and powers within each other.

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "^": operator.pow,
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

# What is computed for names, with a module of functions.
_Node = Callable[[Mapping[str, Any], Any], Any]


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    position: int


class Formula:
    """A formula over numbers that have names.

    It has numbers, names, `+ - * / ^`, parentheses and the functions `abs`,
    `exp`, `log`, `sqrt`, `min` and `max`, the last two of two arguments. `^`
    is a power and goes first, from right to left: `-x^2` is `-(x^2)`. A name
    with other characters than letters, digits, `_` and `.` stands between
    backquotes, and so does that of a function.

    It is parsed and computed here: nothing in it is run as Python.

    Args:
        text: The formula.
        names: The names that it may have.

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
        self._root = self._sum()
        if self._next.kind != "end":
            self._refuse("an operator, or its end,")

    def __call__(self, values: Mapping[str, Any], functions: Any = None) -> Any:
        """Computes the formula.

        Args:
            values: By name, numbers, arrays or tensors of one shape.
            functions: Module with the functions of these, such as `tf.math`;
                NumPy unless given.
        """
        if functions is None:
            import numpy as functions
        return self._root(values, functions)

    def _read(self) -> Iterator[_Token]:
        place = 0
        while self.text[place:].strip():
            match = _TOKEN.match(self.text, place)
            if match is None:
                rest = self.text[place:]
                place += len(rest) - len(rest.lstrip())
                self._tokens = [_Token("other", self.text[place], place)]
                self._place = 0
                self._refuse("a number, a name, an operator or a parenthesis")
            kind = str(match.lastgroup)
            yield _Token(kind, match.group(kind), match.start(kind))
            place = match.end()
        yield _Token("end", "", len(self.text))

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place]

    def _refuse(self, expected: str) -> NoReturn:
        token = self._next
        received = repr(token.text) if token.text else "its end"
        raise ValueError(
            f"a formula must have {expected} at character "
            f"{token.position + 1}. Received: {received} in {self.text!r}"
        )

    def _take(self, *texts: str) -> str | None:
        """The sign that is next, if it is one of these; it is gone on from."""
        token = self._next
        if token.kind != "sign" or token.text not in texts:
            return None
        self._place += 1
        return token.text

    def _within(self, parse: Callable[[], _Node]) -> _Node:
        """What is one level deeper."""
        self._depth += 1
        if self._depth > _DEEPEST:
            self._refuse(f"at most {_DEEPEST} levels, no more")
        node = parse()
        self._depth -= 1
        return node

    def _sum(self) -> _Node:
        node = self._product()
        while sign := self._take("+", "-"):
            node = _joined(sign, node, self._product())
        return node

    def _product(self) -> _Node:
        node = self._signed()
        while sign := self._take("*", "/"):
            node = _joined(sign, node, self._signed())
        return node

    def _signed(self) -> _Node:
        if self._take("-"):
            node = self._within(self._signed)
            return lambda values, functions: -node(values, functions)
        base = self._atom()
        if self._take("^"):
            return _joined("^", base, self._within(self._signed))
        return base

    def _atom(self) -> _Node:
        token = self._next
        if self._take("("):
            node = self._within(self._sum)
            if not self._take(")"):
                self._refuse("')', or an operator,")
            return node
        if token.kind == "number":
            self._place += 1
            number = float(token.text)
            return lambda values, functions: number
        if token.kind != "name":
            self._refuse("a number, a name, a function or '('")
        self._place += 1
        if token.text in _FUNCTIONS and self._take("("):
            return self._function(token.text)
        name = token.text.strip("`")
        if name not in self._names:
            self._place -= 1
            hint = did_you_mean(name, self._names)
            self._refuse(f"one of the names {', '.join(self._names)}{hint},")
        self.used[name] = None
        return lambda values, functions: values[name]

    def _function(self, name: str) -> _Node:
        attribute, count = _FUNCTIONS[name]
        nodes = [self._within(self._sum)]
        while len(nodes) < count:
            if not self._take(","):
                self._refuse(f"',' and another argument of {name}")
            nodes.append(self._within(self._sum))
        if not self._take(")"):
            self._refuse(f"')' behind the arguments of {name}")

        def compute(values: Mapping[str, Any], functions: Any) -> Any:
            given = [node(values, functions) for node in nodes]
            return getattr(functions, attribute)(*given)

        return compute


def _joined(sign: str, left: _Node, right: _Node) -> _Node:
    compute = _OPERATORS[sign]
    return lambda values, functions: compute(
        left(values, functions), right(values, functions)
    )
