from collections.abc import Collection
from dataclasses import dataclass

LATEST, ALL = "latest", "all"


@dataclass(frozen=True)
class VersionPolicy:
    """Which versions of a model are served, labelled ones apart.

    Attributes:
        numbers: The only versions that may be; any unless given.
        most: How many of the highest that can be loaded; all unless given.

    Example:
    >>> VersionPolicy(most=2).candidates([3, 10, 9])
    [10, 9, 3]
    >>> VersionPolicy.of("9,3", keep=1)
    VersionPolicy(numbers=frozenset({9, 3}), most=None)
    """

    numbers: frozenset[int] | None = None
    most: int | None = 1

    @classmethod
    def of(cls, versions: str, keep: int) -> "VersionPolicy":
        """Returns the policy of two options.

        Args:
            versions: `"latest"`, `"all"` or numbers such as `"3,4"`.
            keep: How many versions `"latest"` means.
        """
        if versions == LATEST:
            return cls(most=keep)
        if versions == ALL:
            return cls(most=None)
        return cls(frozenset(map(int, versions.split(","))), None)

    def candidates(self, versions: Collection[int]) -> list[int]:
        """Returns the versions to be tried, the highest first.

        Args:
            versions: Those that there are.
        """
        return sorted(
            (
                version
                for version in versions
                if self.numbers is None or version in self.numbers
            ),
            reverse=True,
        )


# What is served unless told otherwise.
HIGHEST = VersionPolicy()
