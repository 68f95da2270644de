import io
import time

import pytest
from rich.console import Console

from recsys.tuning.sweep_progress import SweepProgress


def shown(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is shown of two trials of 100 s each, after two earlier ones."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with SweepProgress(5, [0.5, None], console) as progress:
        now[0] = 100.0
        progress.trial_ended("2", 0.4)
        now[0] = 200.0
        progress.trial_ended("3", None)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_a_line_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(False, monkeypatch).splitlines() == [
        "trial 2: validation loss 0.4000 "
        "(3 of 5, best validation loss 0.4000, 4 min left)",
        "trial 3: failed (4 of 5, best validation loss 0.4000, 2 min left)",
    ]


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(True, monkeypatch)
    assert "4/5" in text
    assert "best validation loss 0.4000, 2 min left" in text


@pytest.mark.parametrize(
    ("seconds", "left"),
    [(0.1, "1 s"), (5, "45 s"), (60, "9 min"), (3600, "9 h 0 min")],
)
def test_time_that_is_left(
    seconds: float, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    console = Console(file=io.StringIO())
    progress = SweepProgress(10, console=console)
    now[0] = seconds
    progress.trial_ended("0", 1.0)
    assert f" {left} left" in console.file.getvalue()  # type: ignore[attr-defined]


def test_no_loss_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO())
    SweepProgress(2, console=console).trial_ended("0", None)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.startswith("trial 0: failed (1 of 2, no loss yet, ")
