"""The texts below the fields of a configuration."""

from textwrap import fill
from typing import TypeVar

Shape = TypeVar("Shape")


def field_texts(shape: type) -> dict[str, str]:
    """Returns what is written below the fields of a pydantic dataclass.

    Args:
        shape: A class whose `ConfigDict` has `use_attribute_docstrings`, or
            one derived from it.

    Returns:
        A line for each field that has a text, by name; those of base classes
        last.
    """
    # A derived class does not know the texts of those that it is derived from.
    return {
        name: " ".join(field.description.split())
        for owner in shape.__mro__
        for name, field in getattr(owner, "__pydantic_fields__", {}).items()
        if field.description
    }


def with_arguments(shape: type[Shape]) -> type[Shape]:
    """Adds the texts of the fields to the docstring, as arguments.

    `help` of a class shows its docstring, and no text below a field.
    """
    before, raises, after = str(shape.__doc__).partition("    Raises:\n")
    lines = [
        fill(
            f"{name}: {text}",
            width=80,
            initial_indent=" " * 8,
            subsequent_indent=" " * 12,
            break_on_hyphens=False,
        )
        for name, text in field_texts(shape).items()
    ]
    arguments = "\n".join(["    Args:", *lines, "\n"])
    shape.__doc__ = f"{before}{arguments}{raises}{after}"
    return shape
