import re
from collections.abc import Sequence

from recsys.errors.shown import printable

# What Markdown, or HTML in it, would not show as it is: of underscores those
# at the ends of words, of & those that begin an entity.
_SPECIAL = re.compile(r"[\\`*\[\]|]|(?<![^\W_])_|_(?![^\W_])")
_ENTITY = re.compile(r"&(?=#?\w+;)")


def markdown_text(text: str) -> str:
    r"""Returns a text as Markdown that shows it as it is, in one line.

    Args:
        text: Any text, such as the name of a model.

    Example:
    >>> print(markdown_text("val_loss of *a* <b>\n# x"))
    val_loss of \*a\* &lt;b&gt; # x
    """
    text = _SPECIAL.sub(r"\\\g<0>", _ENTITY.sub("&amp;", printable(text)))
    return text.replace("<", "&lt;").replace(">", "&gt;")


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table of texts as Markdown.

    Args:
        header: The titles of the columns.
        rows: The cells, row by row.

    Example:
    >>> print(markdown_table(["gate", "loss"], [["comet", "0.4"]]))
    | gate | loss |
    |---|---|
    | comet | 0.4 |
    """
    lines = [_line(header), "|" + "---|" * len(header), *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(markdown_text, cells)) + " |"
