"""Models on disk: from earlier versions, and from other backends."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_moe import layers
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


def test_weights_of_losses_load_under_their_old_names() -> None:
    """The file calls them `load_weight` and so on, without `_loss`."""
    model = keras.saving.load_model(MODEL.with_name("old_loss_weights.keras"))
    mixture = next(x for x in model.layers if isinstance(x, layers.MMoE))
    weights = [
        (
            gate.importance_loss_weight,
            gate.load_loss_weight,
            gate.load_balance_loss_weight,
            gate.z_loss_weight,
        )
        for gate in mixture.gates.values()
    ]
    assert weights == [(0.5, 0.25, 0, 0), (0, 0, 0.125, 0.0625)]


def test_a_search_goes_on_as_before_there_were_two_normalizations() -> None:
    """The file was written amid a search whose `P` is `S` itself."""
    model = keras.saving.load_model(MODEL.with_name("old_permutation.keras"))
    with np.load(MODEL.with_name("old_permutation.npz")) as case:
        for name, training in (("soft", True), ("hard", False)):
            np.testing.assert_allclose(
                keras.ops.convert_to_numpy(
                    model(case["inputs"], training=training)
                ),
                case[name],
                atol=1e-3,
                err_msg=name,
            )
    permutation = model.layers[-1].permutation
    assert permutation.normalized == "columns"
    assert permutation.get_config()["normalized"] == "columns"


def test_a_gate_saved_before_it_was_annealed_keeps_its_temperature() -> None:
    """The file has no counter of steps, and 1 was the default."""
    model = keras.saving.load_model(
        MODEL.with_name("constant_temperature.keras")
    )
    mixture = next(x for x in model.layers if isinstance(x, layers.MMoE))
    temperatures = {task: g.temperature for task, g in mixture.gates.items()}
    assert temperatures == {"a": 1.0, "b": 0.5}
    inputs = np.linspace(-1, 1, 12).reshape(2, 6).astype("float32")
    expected = [
        [0.007246, 0.007085, 0.010588, 0.100371, 0.031300, 0.046772],
        [0.053353, 0.0, 0.091360, 0.441641, 0.0, 0.403598],
    ]
    np.testing.assert_allclose(
        model.predict(inputs, verbose=0), expected, rtol=1e-4, atol=1e-5
    )


@pytest.mark.slow
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
    pytest.importorskip(backend)
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
