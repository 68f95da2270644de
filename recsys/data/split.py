from typing import Any
from typing import Protocol
from typing import overload


class Split(Protocol):
    """Rows of a data set: a table, or images with their labels.

    By the name of a task, it has its column, with a `to_numpy` method; by a
    list of names, a table of these columns in memory.
    """

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, columns: str, /) -> Any: ...

    @overload
    def __getitem__(self, columns: list[str], /) -> Any: ...

    def sample(self, n: int, *, random_state: int) -> Any:
        """Returns `n` different rows, always the same for a random state."""
