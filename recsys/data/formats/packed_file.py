import gzip
import lzma
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO
from typing import Any

from recsys.errors import DataError
from recsys.errors.reading import reading
from recsys.errors.reading import while_it_fits

CHUNK = 1 << 20  # bytes unpacked at a time
_OPEN: dict[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".xz": lzma.open,
}


@contextmanager
def open_packed(file: Path) -> Iterator[IO[bytes]]:
    """Opens a file, which is unpacked if its name ends in `.gz` or `.xz`.

    Raises:
        DataError: The file is not packed in the way that its name says, or
            is cut off.
    """
    kind = file.suffix.removeprefix(".")
    expected = f"a {kind} file" if file.suffix in _OPEN else "a file"
    with (
        reading(file, expected, DataError),
        _OPEN.get(file.suffix, open)(file, "rb") as stream,
    ):
        yield stream


def read_packed(file: Path) -> bytes:
    """Reads a file, unpacked if its name ends in `.gz` or `.xz`.

    Raises:
        DataError: The file is not packed in the way that its name says, is
            cut off, or unpacks to more than fits into memory.
    """
    with open_packed(file) as stream:
        chunks = iter(partial(stream.read, CHUNK), b"")
        held = while_it_fits(chunks, len, file, DataError)
        return b"".join(held)
