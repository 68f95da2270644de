import re
import struct
import zipfile
import zlib
from pathlib import Path

import psutil
import pytest

from recsys.data import DataError
from recsys.errors import FileError
from recsys.errors import RunError
from recsys.errors.reading import check_fits
from recsys.errors.reading import in_words
from recsys.errors.reading import read_text
from recsys.errors.reading import reading
from recsys.errors.reading import while_it_fits

BROKEN = "one that is broken"


def message_of(error: Exception, file: str = "a.npz") -> str:
    with (
        pytest.raises(DataError) as caught,
        reading(file, "a NumPy .npz file", DataError),
    ):
        raise error
    assert caught.value.__cause__ is error
    return str(caught.value)


@pytest.mark.parametrize(
    ("error", "received"),
    [
        (MemoryError(), "one that takes more memory than there is"),
        (RecursionError("maximum"), "one that is nested too deeply"),
        (EOFError("No data left in file"), "one that is cut off"),
        (
            UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
            "bytes that are not UTF-8 text",
        ),
        (OverflowError("int too large"), "a number that is too large"),
        (NotImplementedError(), "one of a form that is not supported"),
        (zlib.error("Error -3 while decompressing data"), BROKEN),
        (struct.error("unpack requires a buffer of 4 bytes"), BROKEN),
        (KeyError("shape"), BROKEN),
        (TypeError("'int' object is not iterable"), BROKEN),
        (AssertionError(), BROKEN),
        (zipfile.BadZipFile("Bad CRC-32"), f"{BROKEN} (Bad CRC-32)"),
        (
            PermissionError(13, "Permission denied"),
            "one that cannot be read (Permission denied)",
        ),
    ],
)
def test_any_error_names_the_file_in_plain_words(
    error: Exception, received: str
) -> None:
    assert message_of(error) == (
        f"a.npz: expected a NumPy .npz file. Received: {received}"
    )


def test_a_missing_file_is_named_where_the_error_does_not() -> None:
    arrow = FileNotFoundError(2, "Failed to open local file")
    assert message_of(arrow, "part-0.parquet") == (
        "part-0.parquet: expected a NumPy .npz file. Received: none of that "
        "name"
    )
    python = FileNotFoundError(2, "No such file or directory", "a.npz")
    with pytest.raises(FileNotFoundError, match=r"'a\.npz'"):
        message_of(python)


def test_an_integer_that_python_refuses() -> None:
    with pytest.raises(ValueError, match="integer string conversion") as caught:
        int("9" * 5000)
    assert in_words(caught.value) == "an integer of thousands of digits"


def test_control_characters_are_written_out() -> None:
    message = message_of(zipfile.BadZipFile("\x1b[2J\nfake: done"), "\x07.zip")
    assert message == (
        "\\x07.zip: expected a NumPy .npz file. Received: "
        "one that is broken (\\x1b[2J fake: done)"
    )


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "No such file or directory", "a.npz"),
        RunError("runs/a: expected a run"),
        FileError("a.npz, line 3: expected a number. Received: 'x'"),
    ],
)
def test_what_is_clear_already_passes(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, reading("a.npz", "a file"):
        raise error
    assert caught.value is error


def test_an_error_without_the_file_gets_it() -> None:
    with (
        pytest.raises(DataError, match=r"^a\.json: 'name': expected a text"),
        reading("a.json", "a schema"),
    ):
        raise DataError.at("'name'", "a text", "3")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_end_that_is_wanted_passes(error: type[BaseException]) -> None:
    with pytest.raises(error), reading("a.json", "JSON"):
        raise error


def test_text_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    with pytest.raises(FileNotFoundError):
        read_text(file, "JSON")
    file.write_bytes(b"caf\xe9")
    with pytest.raises(
        FileError, match=r"a\.json: expected JSON\. Received: b"
    ):
        read_text(file, "JSON")
    with pytest.raises(FileError, match=re.escape(f"{tmp_path}: expected")):
        read_text(tmp_path, "JSON")


def test_what_does_not_fit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    with file.open("wb") as stream:
        stream.truncate(10**13)  # It takes no room on the disk.
    with pytest.raises(FileError, match=r"Received: 10,000,000,000,000 bytes"):
        read_text(file, "JSON")
    check_fits(1, file)


def test_parts_are_counted_as_they_come() -> None:
    half = psutil.virtual_memory().available // 2
    sizes = iter([1, 2, 2 * half, 4])
    passed = while_it_fits(sizes, int, "a.gz", DataError)
    assert [next(passed), next(passed)] == [1, 2]
    with pytest.raises(DataError, match=r"a\.gz: expected at most"):
        next(passed)
    assert next(sizes) == 4
