from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

from recsys.data.formats.packed_file import read_packed
from recsys.errors import DataError
from recsys.errors.reading import reading
from recsys.files.zip_member import open_member


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
