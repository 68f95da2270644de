"""What processes do that have imported nothing but Keras."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest

import recsys
from tests.studies.small_language_model import small_model

# Keras takes seconds to import: each process is a copy of one that has.
PROGRAM = """
import gc, json, os, sys
gc.disable()  # It would visit the modules, which stay.
import keras
for code, argument in json.loads(sys.argv[1]):
    child = os.fork()
    if not child:
        exec(code, {"argument": argument})
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, code
"""
LOAD = "import recsys; recsys.load_model(argument)"
LOAD_LANGUAGE_MODEL = """
from studies.language_model import load_language_model
from studies.language_model import sentence_classifier
model = sentence_classifier(load_language_model(argument), 3)
assert model.output.shape == (None, 3)
"""
TRAIN = """
import sys
import recsys
assert "recsys.api.train" not in sys.modules
recsys.train(argument)
assert "tensorflow" not in sys.modules
"""


@pytest.mark.slow
@pytest.mark.once("torch")  # Starts processes of its own.
def test_models_are_loaded_and_trained_without_what_is_not_needed(
    settings: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    """To train a run, TensorFlow is not, on another backend."""
    tasks: list[tuple[str, Any]] = []
    for architecture in ("moe", "ple"):
        folder = tmp_path / architecture
        fields = {"architecture": architecture, "gate": "top-k+", "epochs": 1}
        recsys.train(settings(folder, **fields))
        tasks.append((LOAD, str(folder)))
    model = str(tmp_path / "model.keras")
    small_model().save(model)
    tasks.append((LOAD_LANGUAGE_MODEL, model))
    if keras.backend.backend() != "tensorflow":
        tasks.append((TRAIN, settings(tmp_path / "run", epochs=1)))
    command = [sys.executable, "-c", PROGRAM, json.dumps(tasks)]
    subprocess.run(command, check=True)
