"""Values that programs stumble on."""

from random import Random
from typing import Any

TEXTS = [
    "",
    " ",
    "0",
    "-1",
    "7",
    "2.5",
    "nan",
    "-inf",
    "3e38",
    "1e400",
    "9" * 5000,
    str(2**63),
    str(-(10**30)),
    "True",
    "None",
    "\x1b[31m",
    "\x00",
    "\x07\r\x9b2J",
    "\u202e",
    "é😀",
    "'",
    '"',
    '","',
    "{}",
    "[7",
    "../x",
    "/",
    "~",
    "a\nb",
    "x" * 100_000,
    "<b>&amp;",
    "%s{}",
    "2020-13-45",
    "|",
    "1||2|",
    "id",
    "sequence",
    "attention",
    "user",
    "item",
]

VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    1,
    7,
    1.5,
    1e-40,
    3e38,
    10**9,
    10**12,
    2**63,
    10**400,
    float("nan"),
    float("inf"),
    [],
    {},
    [[]],
    [None],
    {"": None},
    [1, "a", {}],
    "\ud800",
    *TEXTS,
]


def text(random: Random) -> str:
    return random.choice(TEXTS)


def value(random: Random) -> Any:
    return random.choice(VALUES)
