import gc
import weakref

import keras
import numpy as np
import pytest

from recsys.tables import TableEmbedding
from recsys.training.train_model import release


def trained() -> keras.Model:
    ids = keras.Input((), dtype="int32")
    model = keras.Model(ids, keras.layers.Dense(1)(TableEmbedding(9, 3)(ids)))
    model.compile(keras.optimizers.Adam(), loss="mse")
    model.fit(np.arange(8), np.arange(8.0), verbose=0)
    return model


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="TensorFlow's variables"
)
def test_nothing_is_left_in_the_variables_of_tensorflow() -> None:
    model = trained()
    variables = [*model.variables, *model.optimizer.variables]
    release(model)
    sizes = {
        len(variable.value.read_value())
        for variable in variables
        if variable.shape
    }
    assert sizes == {0}


@pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="the arrays of JAX"
)
def test_arrays_of_jax_are_deleted() -> None:
    model = trained()
    variables = [*model.variables, *model.optimizer.variables]
    release(model)
    shaped = [variable for variable in variables if variable.shape]
    assert shaped
    assert all(variable.value.is_deleted() for variable in shaped)


def test_no_reference_is_kept() -> None:
    model = trained()
    held = weakref.ref(model)
    release(model)
    del model
    gc.collect()
    assert held() is None
