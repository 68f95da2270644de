from pathlib import Path

import pytest

from tests.durations import folders


def test_a_table_by_folder_and_backend(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = {
        "jax": "tests.a.b.c.test_x::test_y[a::b.c],1000.6\n"
        "tests.a.b.test_x.TestY::test_z,1.5\ntests.test_x::(others),2\n",
        "torch": "tests.a.test_x::(others),3.4\n",
    }
    for name, rows in files.items():
        (tmp_path / f"{name}.csv").write_text(f"test,cpu_seconds\n{rows}")
    monkeypatch.setattr(folders, "FOLDER", tmp_path)
    folders.main(2)
    assert capsys.readouterr().out == (
        "| folder | jax | torch |\n"
        "|---|---:|---:|\n"
        "| all | 1,004 | 3 |\n"
        "| a/b | 1,002 | 0 |\n"
        "| a | 0 | 3 |\n"
        "| tests | 2 | 0 |\n"
    )
