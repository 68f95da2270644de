import re
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field

from matplotlib.figure import Figure

from recsys.files.json_files import JsonMapping

# Such as 0.4, *-1,000 ± 3 and 12 %; nothing, or a dash, stands for a number.
_NUMBER = re.compile(r"\*?[-+]?[\d.,]*( ?±.*| %| MiB)?")


@dataclass(frozen=True)
class Table:
    """A table of texts.

    Attributes:
        caption: What it shows.
        header: The titles of the columns.
        rows: The cells, row by row.
    """

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def text_columns(self) -> set[int]:
        """Positions of columns with more texts than numbers.

        Example:
        >>> Table("", ["gate", "k"], [["comet", "2 ± 0"]]).text_columns
        {0}
        """
        return {
            position
            for position in range(len(self.header))
            if sum(map(_is_text, cells := [r[position] for r in self.rows]))
            > len(cells) / 2
        }


@dataclass(frozen=True)
class Picture:
    """A figure with a name.

    Attributes:
        name: Name of its file, without suffix.
        caption: What it shows.
        figure: The figure.
    """

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Section:
    """A part of a report.

    Attributes:
        title: Its heading.
        text: How to read what follows.
        tables: Its tables.
        pictures: Its figures.
        findings: Sentences that say what it shows, the first to be read.
        values: For machines, the content of a JSON file named after the title.
    """

    title: str
    text: str
    tables: Sequence[Table] = field(default_factory=list)
    pictures: Sequence[Picture] = field(default_factory=list)
    findings: Sequence[str] = field(default_factory=list)
    values: JsonMapping = field(default_factory=dict)


def _is_text(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is None
