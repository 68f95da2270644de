"""Models on disk: golden ones, and from other backends."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.golden.make import MODEL
from tests.golden.make import PREDICTIONS
from tests.golden.make import make_model

OTHER_BACKEND = {"tensorflow": "jax", "jax": "torch", "torch": "tensorflow"}

LOAD_AND_PREDICT = """
import sys
import keras, numpy as np
import keras_moe
model = keras.saving.load_model(sys.argv[1])
inputs = dict(np.load(sys.argv[2]))
np.save(sys.argv[3], model.predict(inputs, verbose=0))
"""


def test_the_golden_model_predicts_what_it_always_did() -> None:
    model = keras.saving.load_model(MODEL)
    case = dict(np.load(PREDICTIONS))
    expected = case.pop("outputs")
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(
        model.predict(case, verbose=0), expected, rtol=1e-4, atol=1e-5
    )


@pytest.mark.slow
@pytest.mark.usefixtures("warm_reader")
def test_another_backend_loads_what_this_one_saved(tmp_path: Path) -> None:
    model = make_model()
    inputs = {
        "features": np.random.default_rng(1).normal(size=(4, 6)),
        "ids": np.arange(4),
    }
    paths = [tmp_path / name for name in ("m.keras", "in.npz", "out.npy")]
    model.save(paths[0])
    np.savez(paths[1], **inputs)
    backend = OTHER_BACKEND[keras.backend.backend()]
    if find_spec(backend) is None:  # Importing it here would take seconds.
        pytest.skip(f"{backend} is not installed")
    subprocess.run(
        [sys.executable, "-c", LOAD_AND_PREDICT, *map(str, paths)],
        env={**os.environ, "KERAS_BACKEND": backend},
        check=True,
    )
    np.testing.assert_allclose(
        np.load(paths[2]),
        model.predict(inputs, verbose=0),
        rtol=1e-4,
        atol=1e-5,
    )
