import numpy as np
import pytest

from tests.keras_moe.layers.cgc.small_cgc import INPUTS
from tests.keras_moe.layers.cgc.small_cgc import ROWS


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(ROWS, INPUTS)).astype("float32")
