import subprocess
import sys
from typing import Any

import pytest

import recsys


@pytest.mark.slow
@pytest.mark.once("torch")  # Starts processes of its own.
@pytest.mark.parametrize("architecture", ["moe", "ple"])
def test_run_is_loaded_where_nothing_else_is_imported(
    architecture: str, settings: Any, tmp_path: Any
) -> None:
    fields = settings(
        tmp_path, architecture=architecture, gate="top-k+", epochs=1
    )
    recsys.train(fields)
    code = "import sys, recsys; recsys.load_model(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
