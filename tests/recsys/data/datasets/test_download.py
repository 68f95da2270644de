import logging
import zipfile
from pathlib import Path

import pytest

from recsys.data import DataError
from recsys.data.datasets.download import check_release
from recsys.data.datasets.download import find_download
from recsys.data.datasets.download import read_download
from tests.recsys.data.zip_files import ENCRYPTED
from tests.recsys.data.zip_files import with_compression
from tests.recsys.data.zip_files import with_flags

ARCHIVE, MEMBER = "ml-100k.zip", "ml-100k/u.data"


def write_archive(folder: Path, member: str = MEMBER) -> Path:
    path = folder / ARCHIVE
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, b"content " * 100)
    return path


@pytest.mark.parametrize("name", ["u.data", "ml-100k/u.data"])
def test_unpacked(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"content")
    assert read_download(tmp_path, ARCHIVE, MEMBER) == (path, b"content")


def test_still_packed(tmp_path: Path) -> None:
    path = write_archive(tmp_path)
    found, content = read_download(tmp_path, ARCHIVE, MEMBER)
    assert found == path / MEMBER
    assert content == b"content " * 100


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none: expected the folder"):
        read_download(tmp_path / "none", ARCHIVE, MEMBER)


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_download(tmp_path, ARCHIVE, MEMBER)
    assert str(caught.value) == (
        f"{tmp_path}: expected one of the files ('u.data', 'ml-100k/u.data', "
        "'ml-100k.zip'). Received: none of them"
    )


def test_an_archive_of_something_else(tmp_path: Path) -> None:
    write_archive(tmp_path, "ml-100k/u.item")
    with pytest.raises(DataError, match=r"ml-100k\.zip: expected the file"):
        read_download(tmp_path, ARCHIVE, MEMBER)


def test_what_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / ARCHIVE).write_bytes(b"<html>404</html>")
    with pytest.raises(DataError, match=r"ml-100k\.zip: expected a zip arch"):
        read_download(tmp_path, ARCHIVE, MEMBER)


def test_a_truncated_archive(tmp_path: Path) -> None:
    path = write_archive(tmp_path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match=r"ml-100k\.zip: expected a zip arch"):
        read_download(tmp_path, ARCHIVE, MEMBER)


def test_a_damaged_archive(tmp_path: Path) -> None:
    path = write_archive(tmp_path)
    content = bytearray(path.read_bytes())
    content[48] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"ml-100k\.zip: expected a zip arch"):
        read_download(tmp_path, ARCHIVE, MEMBER)


def test_the_first_of_several_names(tmp_path: Path) -> None:
    archives, members = ["a.zip", ARCHIVE], ["ml-100k/u.csv", MEMBER]
    assert find_download(tmp_path, archives, members) is None
    packed = write_archive(tmp_path)
    expected = (packed / MEMBER, b"content " * 100)
    assert find_download(tmp_path, archives, members) == expected
    for name in ("u.data", "u.csv"):
        (tmp_path / name).write_bytes(name.encode())
        expected = (tmp_path / name, name.encode())
        assert find_download(tmp_path, archives, members) == expected


def test_an_archive_without_any_of_several_names(tmp_path: Path) -> None:
    write_archive(tmp_path)
    with pytest.raises(DataError, match=r"the file a\.xls or a\.csv in it"):
        find_download(tmp_path, [ARCHIVE], ["a.xls", "a.csv"])


def test_an_encrypted_file(tmp_path: Path) -> None:
    path = write_archive(tmp_path)
    path.write_bytes(with_flags(path.read_bytes(), ENCRYPTED))
    with pytest.raises(DataError) as caught:
        read_download(tmp_path, ARCHIVE, MEMBER)
    assert str(caught.value) == (
        f"{path}: expected 'ml-100k/u.data' in it not to be encrypted. "
        "Received: an encrypted file"
    )


@pytest.mark.parametrize("method", [9, 12, 14, 99])
def test_another_compression(tmp_path: Path, method: int) -> None:
    path = write_archive(tmp_path)
    path.write_bytes(with_compression(path.read_bytes(), method))
    with pytest.raises(DataError, match=r"ml-100k\.zip: expected a zip arch"):
        read_download(tmp_path, ARCHIVE, MEMBER)


def test_a_size_is_checked_before_memory_is_taken(tmp_path: Path) -> None:
    path = tmp_path / ARCHIVE
    member = zipfile.ZipInfo(MEMBER)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, b"content")
        member.file_size = 10**15
    with pytest.raises(DataError, match=r"1,000,000,000,000,000 bytes of 'ml"):
        read_download(tmp_path, ARCHIVE, MEMBER)


PUBLISHED = {"ratings": 9, "users": 3}


def test_the_whole_release(caplog: pytest.LogCaptureFixture) -> None:
    assert check_release("films", "a.csv", PUBLISHED, PUBLISHED)
    assert not caplog.messages


def test_a_subset_is_noted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        counts = {"ratings": 8, "users": 3}
        assert not check_release("films", "a.csv", counts, PUBLISHED)
    assert caplog.messages == [
        "a.csv holds 8 ratings, films has 9: prepared as a subset."
    ]


def test_other_counts_of_a_whole_release_are_refused() -> None:
    counts = {"ratings": 9, "users": 4}
    with pytest.raises(DataError) as caught:
        check_release("films", "a.csv", counts, PUBLISHED)
    assert str(caught.value) == (
        "a.csv: expected {'ratings': 9, 'users': 3}. "
        "Received: {'ratings': 9, 'users': 4}"
    )
