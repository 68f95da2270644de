import zipfile
import zlib
from pathlib import Path

from recsys.data.error import DataError


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
    if not raw_dir.is_dir():
        raise DataError.at(raw_dir, "the folder of the download", "no folder")
    names = (Path(member).name, member, archive)
    for path in (raw_dir / name for name in names):
        if path.is_file():
            if path.name == archive:
                return path / member, _read_member(path, member)
            return path, path.read_bytes()
    raise DataError.at(raw_dir, f"one of the files {names}", "none of them")


def _read_member(archive: Path, member: str) -> bytes:
    try:
        with zipfile.ZipFile(archive) as folder:
            if member not in folder.namelist():
                raise DataError.at(
                    archive, f"the file {member} in it", "an archive without it"
                )
            return folder.read(member)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DataError.at(archive, "a zip archive", str(error)) from error
