"""Ids as text, and as integers that a float64 does not tell apart."""

from collections.abc import Callable
from typing import Any

ID_OF: dict[str, Callable[[int], Any]] = {
    "text": lambda number: f"u{number}",
    "large": lambda number: 2**53 + number,
}
