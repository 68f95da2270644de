import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import recsys

# Each in a process that has imported Keras alone, which takes seconds.
CODE = """
import os, sys
import keras
for folder in sys.argv[1:]:
    child = os.fork()
    if not child:
        import recsys
        recsys.load_model(folder)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, folder
"""


@pytest.mark.slow
@pytest.mark.once("torch")  # Starts a process of its own.
def test_runs_are_loaded_where_nothing_else_is_imported(
    settings: Any, tmp_path: Path
) -> None:
    folders = [tmp_path / architecture for architecture in ("moe", "ple")]
    for folder in folders:
        fields = {"architecture": folder.name, "gate": "top-k+", "epochs": 1}
        recsys.train(settings(folder, **fields))
    subprocess.run([sys.executable, "-c", CODE, *folders], check=True)
