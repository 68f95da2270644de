from typing import Any
from typing import Protocol


class Split(Protocol):
    """Rows of a data set: a table, or images with their labels."""

    def __len__(self) -> int: ...

    def __getitem__(self, name: str, /) -> Any:
        """Returns the column of a task, with a `to_numpy` method."""

    def sample(self, n: int, *, random_state: int) -> Any:
        """Returns `n` different rows, always the same for a random state."""
