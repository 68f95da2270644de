from pathlib import Path

from recsys.data.source_files import source_files


def test_link_to_itself_is_left_to_who_reads_it(tmp_path: Path) -> None:
    link = tmp_path / "a.csv"
    link.symlink_to("a.csv")
    assert source_files(tmp_path, {"train": "a.csv"}) == {"train": [link]}
