import pytest

from recsys.reporting.terminal_table import print_table

HEADER = ["model", "seeds", "loss x 100", "difference x 100", "p"]
ROWS = [
    ["trial-[1]", "2", "42.00 ± 1.00", "", ""],
    ["b|c", "2", "41.00 ± 1.00", "-1.000 ± 0.100", "0.01"],
]


def printed(
    columns: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> list[list[str]]:
    monkeypatch.setenv("COLUMNS", str(columns))
    print_table(HEADER, ROWS)
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= columns
    assert "…" not in text
    return [line.split() for line in text.splitlines() if line.strip()]


def test_a_row_is_a_line_where_it_fits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(80, monkeypatch, capsys)
    assert lines[0] == [*" ".join(HEADER).split()]
    assert lines[2] == ["trial-[1]", "2", "42.00", "±", "1.00"]
    assert lines[3][0] == "b|c"
    assert lines[3][-4:] == ["-1.000", "±", "0.100", "0.01"]


def test_rows_become_columns_where_they_do_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(56, monkeypatch, capsys)
    assert lines[0] == ["model", "trial-[1]", "b|c"]
    assert lines[2] == ["seeds", "2", "2"]


def test_as_many_tables_as_that_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(40, monkeypatch, capsys)
    titles = [line[1:] for line in lines if line[0] == "model"]
    assert titles == [["trial-[1]"], ["b|c"]]


def test_what_is_too_wide_is_not_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    print_table(["model", "loss"], [["a_name_of_30_letters_and_more__", "1"]])
    assert "a_name_of_30_letters_and_more__" in capsys.readouterr().out
