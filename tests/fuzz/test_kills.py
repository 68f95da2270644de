import random
import signal
from pathlib import Path

import keras
import pytest

from tests.fuzz import kills
from tests.fuzz.kills import Fate

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        keras.backend.backend() != "torch",
        reason="files are written alike on every backend; PyTorch starts first",
    ),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    kills.build(tmp_path)
    return tmp_path


def test_killed_commands_leave_nothing_half_done(folder: Path) -> None:
    """Two cases; `make fuzz` runs more of them, and other commands."""
    measured = kills.measure(folder, ["prepare", "train"])
    for name, fates in {
        "prepare": [Fate(change=9), Fate(size=2000)],
        "train": [Fate(change=60), Fate(int(signal.SIGTERM), 1.0)],
    }.items():
        kills.check(name, fates, folder, measured[name][1])
        for path in folder.glob("out*"):
            path.rename(folder / f"{name}-done")


def test_what_is_wrong_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that leaves its output half written when it is killed."""
    (_, expected) = kills.measure(folder, ["prepare"])["prepare"]
    (folder / "out").mkdir()
    (folder / "out" / "train.parquet").touch()
    with pytest.raises(AssertionError, match=r"train\.parquet"):
        kills.check("prepare", [Fate(change=1)], folder, expected)


def test_fates_are_those_of_the_seed() -> None:
    first, again = (
        [kills.draw_fate(rng, 10.0) for _ in range(20)]
        for rng in (random.Random(5), random.Random(5))
    )
    assert first == again
    assert any(fate.number for fate in first)
    assert any(fate.change for fate in first)
    assert any(fate.size is not None for fate in first)
    assert all(0 <= fate.after <= 10 for fate in first)
