import os
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest
from hypothesis import settings

# A busy machine is no error.
settings.register_profile("busy", deadline=None)
settings.load_profile("busy")

# Gates and plans that do not keep what they promise raise errors here.
os.environ.setdefault("KERAS_MOE_CHECK_VALUES", "1")

# Most programs run once here: optimising them takes longer than they do. XLA
# reads this when it compiles for the first time.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 "
    "--xla_llvm_disable_expensive_passes=true",
)

pytest.register_assert_rewrite(
    "tests.gradients", "tests.keras_moe.layers.layer_test"
)

Arrays = dict[str, np.ndarray]

ORACLES = Path(__file__).parent / "oracles"


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Makes every test repeatable on its own, in any order."""
    keras.utils.set_random_seed(0)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def oracle() -> Callable[[str], Arrays]:
    """Loads a case: inputs, weights and outputs of a reference by name."""

    def load(name: str) -> Arrays:
        with np.load(ORACLES / f"{name}.npz") as case:
            return dict(case)

    return load
