from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.recsys.reporting.run_folders import write_sweep

if TYPE_CHECKING:
    from recsys.reporting.trained import Trained

# Validation and test loss of each trial.
TOP_K = [(0.50, 0.52), (0.45, 0.46), (0.60, 0.61), (0.44, 0.47)]
COMET = [(0.41, 0.42), (0.40, 0.43), (0.55, 0.54), (0.43, 0.44)]


@pytest.fixture
def two_sweeps(tmp_path: Path) -> list[Path]:
    return [
        write_sweep(tmp_path / "top-k", "top-k", TOP_K, failed=1),
        write_sweep(tmp_path / "comet", "comet", COMET),
    ]


@pytest.fixture
def swept(two_sweeps: list[Path]) -> "list[Trained]":
    # Not for the tests without Keras, which this needs.
    from recsys.reporting.trained import read_trained

    return read_trained(two_sweeps)
