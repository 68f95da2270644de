"""The boundary that every file of a user's is read through."""

import struct
import zlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from recsys.errors import FileError
from recsys.errors import RunError
from recsys.errors.memory import free_memory
from recsys.errors.shown import printable

Part = TypeVar("Part")

# What Python's own errors say is about Python, not about the file.
_BROKEN = "one that is broken"
_WORDS: list[tuple[type[Exception], str]] = [
    (MemoryError, "one that takes more memory than there is"),
    (RecursionError, "one that is nested too deeply"),
    (EOFError, "one that is cut off"),
    (UnicodeError, "bytes that are not UTF-8 text"),
    (OverflowError, "a number that is too large"),
    (NotImplementedError, "one of a form that is not supported"),
    (struct.error, _BROKEN),
    (zlib.error, _BROKEN),
]


@contextmanager
def reading(
    file: object, expected: str, error: type[FileError] = FileError
) -> Iterator[None]:
    """Turns whatever goes wrong while a file is read into one clear error.

    A broken file makes the libraries that read it stumble in more ways than
    they document. Errors of this package pass, as does that of a file that is
    not there, where it names the file: they are clear already.

    Args:
        file: What is read.
        expected: What it should be, such as "a Parquet file".
        error: The class of the error. Defaults to `FileError`.

    Raises:
        FileError: Something went wrong; its cause is the exception that was
            raised.

    Example:
    >>> with reading("a.npz", "a NumPy .npz file"):
    ...     raise EOFError("Ran out of input")
    Traceback (most recent call last):
    ...
    recsys.errors.FileError: a.npz: expected a NumPy .npz file. \
Received: one that is cut off
    """
    try:
        yield
    except RunError:
        raise
    except FileNotFoundError as caught:
        if caught.filename is not None:
            raise
        raise error.at(file, expected, "none of that name") from caught
    except FileError as caught:
        if printable(str(file)) in str(caught):
            raise
        raise type(caught)(printable(f"{file}: {caught}")) from caught
    except Exception as caught:
        raise error.at(file, expected, in_words(caught)) from caught


@contextmanager
def naming(file: str | Path | None) -> Iterator[None]:
    """Puts a file before what is wrong with values that it gives.

    Args:
        file: The file; with `None`, errors stay as they are.

    Example:
    >>> with naming("config.json"):
    ...     raise ValueError("`k` must be at least 1. Received: k=0")
    Traceback (most recent call last):
    ...
    ValueError: config.json: `k` must be at least 1. Received: k=0
    """
    try:
        yield
    except FileError:
        raise
    except (ValueError, TypeError) as error:
        if file is None:
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{file}: {error}") from error


def in_words(error: Exception) -> str:
    """Says for the user of a file what an exception says about it.

    Example:
    >>> in_words(MemoryError()), in_words(TypeError("unhashable type: 'list'"))
    ('one that takes more memory than there is', 'one that is broken')
    """
    for kind, words in _WORDS:
        if isinstance(error, kind):
            return words
    if "limit" in str(error) and "integer string conversion" in str(error):
        return "an integer of thousands of digits"
    if isinstance(error, OSError) and error.strerror:
        return f"one that cannot be read ({error.strerror})"
    if type(error).__module__ == "builtins" or not str(error):
        return _BROKEN
    return f"one that is broken ({error})"


def read_text(
    file: Path, expected: str, error: type[FileError] = FileError
) -> str:
    """Returns the content of a UTF-8 file.

    Args:
        file: The file.
        expected: What it should be, for the error message.
        error: The class of the error. Defaults to `FileError`.

    Raises:
        FileError: The file cannot be read, or is not UTF-8.
        FileNotFoundError: There is none.
    """
    with reading(file, expected, error):
        check_fits(file.stat().st_size, file, error)
        return file.read_text(encoding="utf-8")


def check_fits(
    size: int,
    file: object,
    error: type[FileError] = FileError,
    what: str = "",
) -> None:
    """Checks that what a file holds fits into memory, before it is taken.

    Args:
        size: Bytes, as the file says.
        file: The file.
        error: The class of the error. Defaults to `FileError`.
        what: What they are the bytes of, for the error message.

    Raises:
        FileError: There is less memory.
    """
    free = free_memory()
    if size > free:
        raise error.at(
            file,
            f"at most the free memory, {free:,} bytes",
            f"{size:,} bytes" + (what and f" of {what}"),
        )


def while_it_fits(
    parts: Iterable[Part],
    size: Callable[[Part], int],
    file: object,
    error: type[FileError] = FileError,
) -> Iterator[Part]:
    """Passes on the parts of what may be far larger than its file.

    Args:
        parts: The parts, read one by one.
        size: Gives the bytes of a part.
        file: Where they come from, for the error message.
        error: The class of the error. Defaults to `FileError`.

    Raises:
        FileError: All parts together are larger than half of the memory that
            was free: they are about to be joined.

    Example:
    >>> b"".join(while_it_fits([b"a", b"b"], len, "a.gz"))
    b'ab'
    """
    most, total = free_memory() // 2, 0
    for part in parts:
        total += size(part)
        if total > most:
            raise error.at(
                file,
                f"at most {most:,} bytes, half of the free memory",
                "more",
            )
        yield part
