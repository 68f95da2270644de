from pathlib import Path
from typing import Any

import pytest

from tests.recsys import fake_trainer

Records = list[dict[str, Any]]

SPACE = {
    "learning_rate": {"min": 1e-4, "max": 1e-2, "sampling": "log"},
    "k": [1, 2],
}
# For `use_fake`: no training ends before another one has begun.
TWO_AT_A_TIME = """
    import time
    started = time.monotonic()
    while len((here / "calls.txt").read_text().split()) < 2:
        assert time.monotonic() < started + 300
        time.sleep(0.05)
    """


def use_fake(
    monkeypatch: pytest.MonkeyPatch, folder: Path, extra: str = ""
) -> None:
    program = fake_trainer.install(folder, extra)
    monkeypatch.setattr("sys.executable", str(program))


def in_order(records: Records) -> Records:
    """What does not depend on the folder and the time of day."""
    kept = ("trial", "status", "hyperparameters", "validation", "test")
    ordered = sorted(records, key=lambda record: record["trial"])
    return [{name: record[name] for name in kept} for record in ordered]
