from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recsys.data import DataError
from recsys.measuring.curves import read_history
from recsys.measuring.curves import read_weights

HISTORY = "epoch,val_loss,seconds,watch_auc\n"
WEIGHTS = "epoch,task,expert,weight\n"


def test_history(tmp_path: Path) -> None:
    file = tmp_path / "history.csv"
    file.write_text(HISTORY + "1,0.5,2,\n2,0.25,3,0.75\n")
    table = read_history(file)
    assert table["epoch"].tolist() == [1, 2]
    assert table["epoch"].dtype == "int64"
    assert table["val_loss"].tolist() == [0.5, 0.25]
    assert table["watch_auc"].isna().tolist() == [True, False]


def test_weights(tmp_path: Path) -> None:
    file = tmp_path / "weights.csv"
    file.write_text(WEIGHTS + "0,null,1,0.1\n0,7,1,0.9\n")
    table = read_weights(file)
    assert table["task"].tolist() == ["null", "7"]
    assert table["weight"].dtype == "float32"
    assert table["expert"].tolist() == [1, 1]


def test_tasks_named_by_numbers(tmp_path: Path) -> None:
    file = tmp_path / "weights.csv"
    file.write_text(WEIGHTS + "0,7,1,0.1\n")
    assert read_weights(file)["task"].tolist() == ["7"]


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (read_history, "", "expected a comma-separated UTF-8 file"),
        (read_history, "\0\xff\n", "expected a c"),
        (read_history, HISTORY, "expected at least one row"),
        (read_history, "epoch,loss\n1,2\n", "expected a column 'val_loss'"),
        (
            read_history,
            HISTORY + "1,much,1,1\n",
            "column 'val_loss', data row 1",
        ),
        (
            read_history,
            HISTORY + "1,1,1,1\n,1,1,1\n",
            "column 'epoch', data row 2",
        ),
        (read_history, HISTORY + "0.5,1,1,1\n", "column 'epoch', data row 1"),
        (
            read_history,
            HISTORY + f"{2**32},1,1,1\n{2**32 + 1},1,1,1\n",
            "column 'epoch', data row 2 .*expected a count. Received: 4",
        ),
        (read_history, HISTORY + "1,1\n", "expected 4 "),
        (read_weights, WEIGHTS, "expected at least one row"),
        (read_weights, "task,weight\na,1\n", "expected a column 'epoch'"),
        (read_weights, WEIGHTS + "0,a,one,1\n", "column 'expert', data row 1"),
        (read_weights, WEIGHTS + "0,a,0,inf\n", "column 'weight', data row 1"),
        (read_weights, WEIGHTS + "0,a,0,\n", "column 'weight', data row 1"),
        (read_weights, WEIGHTS + "0,,0,1\n", "column 'task', data row 1"),
        (
            read_weights,
            WEIGHTS + "0,a,0,1\n0,b,0,1\n0,a,0,1\n",
            "data row 3 .*each expert once",
        ),
    ],
)
def test_broken_table_is_one_clear_error(
    read: Callable[[Path], Any], content: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "table.csv"
    file.write_text(content, encoding="latin-1")
    with pytest.raises(DataError, match=f"^{file}.*{message}"):
        read(file)
