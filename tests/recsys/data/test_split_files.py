from pathlib import Path

from recsys.data.split_files import source_files


def test_the_parts_of_a_folder_are_files_of_their_own(tmp_path: Path) -> None:
    parts = tmp_path / "log.parquet"
    parts.mkdir()
    for name in ("part-10.parquet", "part-9.parquet", "_SUCCESS"):
        (parts / name).touch()
    assert source_files(tmp_path, {"train": "log.parquet"}) == {
        "train": [parts / "part-9.parquet", parts / "part-10.parquet"]
    }


def test_link_to_itself_is_left_to_who_reads_it(tmp_path: Path) -> None:
    link = tmp_path / "a.csv"
    link.symlink_to("a.csv")
    assert source_files(tmp_path, {"train": "a.csv"}) == {"train": [link]}
