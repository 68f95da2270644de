import keras
import numpy as np
import pytest

from recsys.training.callbacks.epoch_average import EpochAverage


def step(model: keras.Model, value: float) -> None:
    """Does what an epoch does to the weights."""
    for weight in model.trainable_variables:
        weight.assign(np.full(weight.shape, value, np.float32))


def of_first(model: keras.Model) -> float:
    kernel, _ = model.get_weights()
    return float(kernel[0, 0])


@pytest.fixture
def model() -> keras.Model:
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])


def test_the_average_stands_between_epochs(model: keras.Model) -> None:
    average = EpochAverage(model.trainable_variables, decay=0.5)
    expected = np.nan
    values = [3.0, -1.0, 4.0, 8.0, 2.0]
    shares = [1.0, 2 / 4, 0.5, 0.5, 0.5]
    for epoch, value in enumerate(values):
        average.on_epoch_begin(epoch)
        if epoch:  # Training goes on with the weights themselves.
            assert of_first(model) == values[epoch - 1]
        step(model, value)
        average.on_epoch_end(epoch)
        before = value if not epoch else expected
        expected = before + shares[epoch] * (value - before)
        assert of_first(model) == pytest.approx(expected)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="TensorFlow has replicas"
)
def test_the_average_of_replicas() -> None:
    import tensorflow as tf

    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        average = EpochAverage(model.trainable_variables, decay=0.5)
        for epoch, value in enumerate([3.0, -1.0]):
            average.on_epoch_begin(epoch)
            step(model, value)
            average.on_epoch_end(epoch)
    assert of_first(model) == 1.0


def test_it_can_be_left_to_others(model: keras.Model) -> None:
    average = EpochAverage(model.trainable_variables, 0.5, takes_place=False)
    for epoch, value in enumerate([3.0, -1.0]):
        average.on_epoch_begin(epoch)
        step(model, value)
        average.on_epoch_end(epoch)
        assert of_first(model) == value
    average.change_places()
    assert of_first(model) == 1.0
    average.on_epoch_begin(2)
    assert of_first(model) == -1.0


@pytest.mark.parametrize("within", [False, True])
def test_it_goes_on_from_its_variables(
    model: keras.Model, within: bool
) -> None:
    average = EpochAverage(model.trainable_variables)
    for epoch, value in enumerate([3.0, -1.0]):
        average.on_epoch_begin(epoch)
        step(model, value)
        average.on_epoch_end(epoch)
    if within:
        average.on_epoch_begin(2)
        step(model, 5.0)
    other = keras.models.clone_model(model)
    other.set_weights(model.get_weights())
    resumed = EpochAverage(other.trainable_variables)
    for new, old in zip(resumed.variables, average.variables, strict=True):
        new.assign(old)
    for each, trained in ((average, model), (resumed, other)):
        each.on_epoch_begin(2)
        assert of_first(trained) == (5.0 if within else -1.0)
        step(trained, 7.0)
        each.on_epoch_end(2)
    assert of_first(model) == of_first(other)
    assert of_first(model) == pytest.approx(1.0 + 0.4 * (7.0 - 1.0))
