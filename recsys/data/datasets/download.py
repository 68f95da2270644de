import logging
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

from recsys.data.formats.packed_file import read_packed
from recsys.errors import DataError
from recsys.errors.reading import reading
from recsys.files.zip_member import open_member

_log = logging.getLogger(__name__)


def read_download(
    raw_dir: Path, archive: str, member: str
) -> tuple[Path, bytes]:
    """Reads one file of a download, unpacked or still in its zip archive.

    Args:
        raw_dir: Folder that holds the file, the unpacked archive, or the
            archive itself.
        archive: Name of the zip archive.
        member: Path of the file inside the archive.

    Returns:
        Where the file was found, and its content.

    Raises:
        DataError: None of the three is there, or the archive is broken.
    """
    download = find_download(raw_dir, [archive], [member])
    if download is None:
        names = (Path(member).name, member, archive)
        raise DataError.at(raw_dir, f"one of the files {names}", "none of them")
    return download


def is_in_download(raw_dir: Path, archive: str, member: str) -> bool:
    """Returns whether `read_download` of a file would find it.

    Raises:
        DataError: The archive is broken.
    """
    if any((raw_dir / name).is_file() for name in (Path(member).name, member)):
        return True
    path = raw_dir / archive
    if not path.is_file():
        return False
    with reading(path, "a zip archive", DataError), ZipFile(path) as folder:
        return member in folder.namelist()


def find_download(
    raw_dir: Path, archives: Sequence[str], members: Sequence[str]
) -> tuple[Path, bytes] | None:
    """Reads a file that goes by several names, as `read_download` does.

    Args:
        raw_dir: Folder of the download.
        archives: Names of the zip archive, first come, first served.
        members: Names of the file, likewise.

    Returns:
        Where the file was found, and its content; `None` if neither the file
        nor an archive is there.

    Raises:
        DataError: There is no folder, or the archive is broken or holds
            something else.
    """
    if not raw_dir.is_dir():
        raise DataError.at(raw_dir, "the folder of the download", "no folder")
    for member in members:
        for path in (raw_dir / Path(member).name, raw_dir / member):
            if path.is_file():
                return path, read_packed(path)
    for archive in archives:
        path = raw_dir / archive
        if path.is_file():
            return _read_member(path, members)
    return None


def _read_member(archive: Path, members: Sequence[str]) -> tuple[Path, bytes]:
    with (
        reading(archive, "a zip archive", DataError),
        ZipFile(archive) as folder,
    ):
        for member in members:
            if member in folder.namelist():
                with open_member(folder, member, archive, DataError) as stream:
                    return archive / member, stream.read()
    raise DataError.at(
        archive,
        f"the file {' or '.join(members)} in it",
        "an archive without it",
    )


def find_file(raw_dir: Path, *names: str) -> Path:
    """Returns the first of several files that a download holds.

    Args:
        raw_dir: Folder of the download.
        *names: What the file may be called, paths in the folder.

    Raises:
        DataError: None of them is there.
    """
    if not raw_dir.is_dir():
        raise DataError.at(raw_dir, "the folder of the download", "no folder")
    for path in (raw_dir / name for name in names):
        if path.is_file():
            return path
    raise DataError.at(raw_dir, f"one of the files {names}", "none of them")


def check_release(
    name: str,
    file: object,
    counts: Mapping[str, int],
    published: Mapping[str, int],
) -> bool:
    """Checks what was counted in a download against what was published.

    Args:
        name: Name of the data set.
        file: Where the counts come from, for the messages.
        counts: What was counted.
        published: The same of the whole release. The first entry tells
            whether the download is whole; if not, a warning says so.

    Returns:
        Whether the download is whole.

    Raises:
        DataError: It is, but another count differs.

    Example:
    >>> check_release("films", "a.csv", {"ratings": 9}, {"ratings": 9})
    True
    """
    whole = next(iter(published))
    if counts[whole] != published[whole]:
        _log.warning(
            "%s holds %d %s, %s has %d: prepared as a subset.",
            file,
            counts[whole],
            whole,
            name,
            published[whole],
        )
        return False
    if counts != published:
        raise DataError.at(file, f"{published}", f"{counts}")
    return True
