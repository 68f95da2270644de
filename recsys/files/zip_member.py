from typing import IO
from zipfile import ZipFile

from recsys.errors import FileError
from recsys.errors.reading import check_fits

ENCRYPTED = 0x1  # In the flags of a member.


def open_member(
    archive: ZipFile, name: str, file: object, error: type[FileError]
) -> IO[bytes]:
    """Opens a file in a zip archive, unless it is larger than memory.

    Args:
        archive: The archive.
        name: Path of the file inside the archive, which must be there.
        file: The archive's path, for the error message.
        error: The class of the error.

    Raises:
        FileError: The file is encrypted or does not fit into memory.
    """
    member = archive.getinfo(name)
    if member.flag_bits & ENCRYPTED:
        expected = f"{name!r} in it not to be encrypted"
        raise error.at(file, expected, "an encrypted file")
    check_fits(member.file_size, file, error, repr(name))
    return archive.open(member)
