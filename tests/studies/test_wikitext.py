import gzip
import os
from pathlib import Path

import pytest

from recsys.errors import DataError
from studies.wikitext import read_wikitext

TEXT = " \n = Lobster = \n \n A <unk> speciés of 10 @,@ 000 . \n"


@pytest.mark.parametrize(
    "name",
    ["wiki.valid.tokens", "valid.txt", "wiki.valid.tokens.gz", "valid.txt.gz"],
)
def test_each_layout_is_read(tmp_path: Path, name: str) -> None:
    content = TEXT.encode()
    packed = gzip.compress(content) if name.endswith(".gz") else content
    (tmp_path / name).write_bytes(packed)
    assert read_wikitext(tmp_path, "valid") == TEXT


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\xff\xfe", "UTF-8"), (b" \n", "an empty file")],
)
def test_a_broken_file_is_one_error(
    tmp_path: Path, content: bytes, message: str
) -> None:
    file = tmp_path / "test.txt"
    file.write_bytes(content)
    with pytest.raises(DataError, match=f"{file}.*{message}"):
        read_wikitext(tmp_path, "test")


def test_a_file_that_is_cut_off_is_one_error(tmp_path: Path) -> None:
    file = tmp_path / "test.txt.gz"
    file.write_bytes(gzip.compress(TEXT.encode())[:-12])
    with pytest.raises(DataError, match=str(file)):
        read_wikitext(tmp_path, "test")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"wiki\.train\.tokens"):
        read_wikitext(tmp_path, "train")


def test_an_unknown_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Received: split='dev'"):
        read_wikitext(tmp_path, "dev")


def test_the_real_wikitext() -> None:
    folder = Path(os.environ.get("RECSYS_DATA", "")) / "wikitext-2"
    if not folder.is_dir():
        pytest.skip("RECSYS_DATA names no folder with wikitext-2")
    # Published, with a token more for the end of each line.
    for split, tokens in (("valid", 217_646), ("test", 245_569)):
        text = read_wikitext(folder, split)
        assert len(text.split()) + text.count("\n") == tokens
