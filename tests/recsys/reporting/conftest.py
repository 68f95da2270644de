from pathlib import Path

import pytest

from recsys.reporting.trained import Trained
from recsys.reporting.trained import read_trained
from tests.recsys.reporting.run_folders import write_sweep

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
def swept(two_sweeps: list[Path]) -> list[Trained]:
    return read_trained(two_sweeps)
