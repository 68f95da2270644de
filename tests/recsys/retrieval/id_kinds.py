"""The ids of the films and of who watches them: integers, or texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

LARGE = 2**53  # From here on, a float has no room for every integer.


@dataclass(frozen=True)
class IdKinds:
    """Where items have ids of one type, users have those of the other.

    Args:
        texts: Whether those of the items are texts.
    """

    texts: bool

    @property
    def name(self) -> str:
        return "texts" if self.texts else "ints"

    def item(self, number: int) -> Any:
        """The id of the film with a number; ids are in the same order."""
        if self.texts:  # 007 is no 7, and a NUL at the end of a text counts.
            return f"{number // 2:03}" + number % 2 * "\0"
        return number if number < 15 else LARGE + number

    def user(self, number: int) -> Any:
        """The id of the user with a number."""
        return LARGE + number if self.texts else f"u{number}"

    @property
    def nobody(self) -> Any:
        """The id of a user whom no split has."""
        return LARGE + 99 if self.texts else "nobody"

    @property
    def nothing(self) -> Any:
        """What a served model takes for an item that is none."""
        return "" if self.texts else -(2**63)

    @property
    def types(self) -> tuple[Any, Any]:
        """Types of NumPy of the users' and the items' ids."""
        kinds: tuple[Any, Any] = (object, np.int64)
        return kinds[::-1] if self.texts else kinds

    def number(self, item: Any) -> int:
        """The number of the film with an id, of a model or of an answer."""
        if not self.texts:
            return int(item) % LARGE if int(item) > LARGE else int(item)
        text = item.decode() if isinstance(item, bytes) else item
        return 2 * int(text[:3]) + text.endswith("\0")

    def items(self, numbers: Any) -> list[Any]:
        """The ids of several films."""
        return [self.item(int(number)) for number in numbers]

    def numbers(self, items: Any) -> list[int]:
        """The numbers of several films."""
        return [self.number(item) for item in items]


def of_one_kind(argument: str, values: Sequence[Any]) -> pytest.MarkDecorator:
    """Tries each value of an argument with ids of one kind, in turn.

    For what learns from ids by their numbers alone: others in the file of the
    test see to the ids themselves, with both kinds.

    Args:
        argument: The name of the argument.
        values: Its values.
    """
    return pytest.mark.parametrize(
        ("ids", argument),
        [(bool(place % 2), value) for place, value in enumerate(values)],
        indirect=["ids"],
        ids=[
            f"{IdKinds(texts=bool(place % 2)).name}-{value}"
            for place, value in enumerate(values)
        ],
        scope="session",
    )


# Tries a test with ids of one kind, where their numbers alone matter.
of_texts = pytest.mark.parametrize("ids", [True], ids=["texts"], indirect=True)
