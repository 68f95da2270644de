from pathlib import Path

import pytest

from recsys.data import DataError
from recsys.data import load
from recsys.data import prepare
from tests.recsys.data.datasets.ali_ccp_files import features
from tests.recsys.data.datasets.ali_ccp_files import write_ali_ccp

COMMON = features([("101", 7, 1.0), ("109_14", 4, 0.5), ("109_14", 9, 2.25)])
OWN = features([("205", 30, 1.0), ("508", 4, 0.7), ("301", 2, 1.0)])


@pytest.fixture
def raw_dir(tmp_path: Path) -> Path:
    """Three examples to train on and one for the test, of one user."""
    folder = tmp_path / "raw"
    folder.mkdir()
    for part, count in (("train", 3), ("test", 1)):
        lines = [f"{number},1,0,u,{OWN}\r\n" for number in range(count)]
        (folder / f"sample_skeleton_{part}.csv").write_text("".join(lines))
        common = f"v,0,\nu,{COMMON}\n"
        (folder / f"common_features_{part}.csv").write_text(common)
    return folder


def test_an_example_has_its_own_and_the_common_features(
    raw_dir: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    rows = prepare("ali-ccp", raw_dir, out, validation_share=0.34)
    assert rows == {"train": 2, "validation": 1, "test": 1}
    dataset = load(out)
    assert dataset.schema.group == "101"
    row = dataset.split("test").iloc[0]
    assert (row["101"], row["205"], row["301"]) == ("7", "30", "2")
    assert row["109_14"].tolist() == ["4:0.5", "9:2.25"]
    assert row["508"].tolist() == ["4:0.7"]
    assert row["853"].tolist() == []
    assert (row["click"], row["conversion"]) == (1, 0)


def test_the_first_rows(tmp_path: Path) -> None:
    raw_dir = tmp_path / "raw"
    raw_dir.mkdir()
    write_ali_ccp(raw_dir, 40, 30)
    rows = prepare("ali-ccp", raw_dir, tmp_path / "out", rows=20)
    assert rows == {"train": 18, "validation": 2, "test": 20}


@pytest.mark.parametrize(
    ("part", "line", "message"),
    [
        (
            "sample_skeleton",
            "1,2,0,u,0,",
            "line 1: expected an example, click, conversion, an index, a "
            "count and features. Received: '1,2,0,u,0,'",
        ),
        (
            "sample_skeleton",
            f"1,1,0,u,3{OWN[1:-6]}",
            "line 1: expected a field, an id and a weight. Received: '30",
        ),
        (
            "sample_skeleton",
            f"1,1,0,u,4{OWN[1:]}",
            "line 1: expected 4 features. Received: 3",
        ),
        (
            "sample_skeleton",
            "1,1,0,u,2,101\x021\x031.0\x01101\x022\x031.0",
            "line 1: expected one id in the field 101. Received: 2 of them",
        ),
        (
            "common_features",
            "w,0,",
            "expected the common features of each example. Received: none of "
            "index 'u'",
        ),
        (
            "sample_skeleton",
            "1,1,0,u,1,508\x021\x03much",
            "column '508', data row 1 (counted from 1): expected `id:weight`, "
            "such as 'drama:0.7'. Received: '1:much'",
        ),
    ],
)
def test_a_broken_line(
    raw_dir: Path, tmp_path: Path, part: str, line: str, message: str
) -> None:
    file = raw_dir / f"{part}_train.csv"
    file.write_text(line + "\n")
    with pytest.raises(DataError) as caught:
        prepare("ali-ccp", raw_dir, tmp_path / "out")
    assert message in str(caught.value)
    assert file.name in str(caught.value)


def test_no_row(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`rows` must be at least 1"):
        prepare("ali-ccp", tmp_path, tmp_path / "out", rows=0)
