import gzip
import lzma
import zlib
from pathlib import Path

from recsys.data.error import DataError


def read_packed(file: Path) -> bytes:
    """Reads a file, unpacked if its name ends in `.gz` or `.xz`.

    Raises:
        DataError: The file is not packed in the way that its name says, or
            is cut off.
    """
    content = file.read_bytes()
    try:
        if file.suffix == ".gz":
            return gzip.decompress(content)
        if file.suffix == ".xz":
            return lzma.decompress(content)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        kind = file.suffix.removeprefix(".")
        raise DataError.at(file, f"a {kind} file", str(error)) from error
    return content
