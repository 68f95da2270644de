import gzip
import json
import re
from pathlib import Path

import pytest

from recsys.errors import DataError
from studies.codeparrot import read_codeparrot


def write_part(folder: Path, number: int, texts: list[str]) -> None:
    lines = [
        json.dumps({"repo_name": "a/b", "content": text}, ensure_ascii=False)
        for text in texts
    ]
    content = ("\n".join(lines) + "\n").encode()
    file = folder / f"file-{number:012d}.json.gz"
    file.write_bytes(gzip.compress(content))


def test_parts_are_read_in_order(tmp_path: Path) -> None:
    write_part(tmp_path, 2, ["é = 1\u2028\n"])
    write_part(tmp_path, 1, ["import a\n", "b = 'x\\ny'\n"])
    texts = read_codeparrot(tmp_path)
    assert texts == ["import a\n", "b = 'x\\ny'\n", "é = 1\u2028\n"]
    assert read_codeparrot(tmp_path, most_files=2) == texts[:2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[1", "line 1: expected a JSON object"),
        (b'{"content": 3}\n', "line 1: expected an object with a text under"),
        (b'{"content": "a"}\n[]\n', "line 2"),
        (b"\xff", "expected UTF-8 text"),
    ],
)
def test_a_broken_part(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        read_codeparrot(tmp_path)
    assert "a.json" in str(caught.value)


def test_missing_parts(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected parts \*\.json\.gz"):
        read_codeparrot(tmp_path)
    with pytest.raises(DataError, match="expected the folder"):
        read_codeparrot(tmp_path / "no")
