import keras
import numpy as np
import pytest
from keras import ops

from recsys.tables import LazyAdam
from recsys.tables import TableEmbedding
from recsys.tables import TableOptimizer


def test_adam_sums_the_gradients_of_an_id_before_it_squares_them() -> None:
    """On every backend, with no optimizer but Keras's own."""
    ids = keras.Input((2,), dtype="int32")
    table = TableEmbedding(4, 1, embeddings_initializer="zeros")
    model = keras.Model(ids, ops.sum(table(ids), axis=1))
    optimizer = keras.optimizers.Adam(0.01)
    # The gradient of the mean of -y x is -y / 2 for each of two rows.
    model.compile(optimizer, loss=lambda y, x: -y * x, jit_compile=False)
    model.fit(
        np.array([[1, 2], [1, 3]], "int32"),
        np.array([[2.0], [4.0]], "float32"),
        verbose=0,
    )
    momentum, velocity = (
        ops.convert_to_numpy(variable)[:, 0]
        for variable in optimizer.variables[2:]
    )
    gradient = np.array([0.0, -3.0, -1.0, -2.0])
    np.testing.assert_allclose(momentum, 0.1 * gradient, rtol=1e-5)
    np.testing.assert_allclose(velocity, 0.001 * gradient**2, rtol=1e-5)


def test_ids_of_any_shape_and_type() -> None:
    layer = TableEmbedding(5, 3)
    for shape in ((), (2,), (2, 3)):
        for dtype in ("int32", "int64", "float32"):
            assert layer(np.zeros(shape, dtype)).shape == (*shape, 3)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="variables of TensorFlow"
)
def test_table_that_is_trained_by_rows_is_never_read_whole() -> None:
    """TensorFlow copies such a variable whenever all of it is read."""
    table = TableEmbedding(50, 3)
    table.build()
    TableOptimizer(keras.optimizers.Adam(), LazyAdam()).build(
        table.trainable_variables
    )
    import tensorflow as tf

    function = tf.function(table)
    graph = function.get_concrete_function(tf.TensorSpec((None,), tf.int32))
    operations = {operation.type for operation in graph.graph.get_operations()}
    assert "ResourceGather" in operations
    assert "ReadVariableOp" not in operations
