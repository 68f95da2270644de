from typing import NamedTuple


class DataWarning(NamedTuple):
    """Something in a data set that makes a training fail or its metrics lie.

    Attributes:
        kind: A few words to find it by, such as "constant".
        text: What was found, with its figures.
        remedy: What to do about it.
    """

    kind: str
    text: str
    remedy: str

    def __str__(self) -> str:
        """Returns both sentences."""
        return f"{self.text}. {self.remedy}."


def percent(share: float) -> str:
    """Returns a share as a text.

    Example:
    >>> percent(0.0314), percent(0.00004), percent(0.0), percent(0.99996)
    ('3.1 %', 'under 0.1 %', '0 %', 'over 99.9 %')
    """
    if 0 < share < 0.001:
        return "under 0.1 %"
    if 0.999 < share < 1:
        return "over 99.9 %"
    text = f"{100 * share:.1f}"
    return f"{text.removesuffix('.0')} %"
