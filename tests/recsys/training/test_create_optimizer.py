import keras
import pytest
from keras import ops

from recsys.optimizers import OPTIMIZERS
from recsys.training.create_optimizer import create_optimizer


def after_one_step(name: str, gradient: float) -> float:
    """Where a weight of 1 is after a step of length 0.5."""
    weight = keras.Variable(1.0)
    optimizer = create_optimizer(name, 0.5)
    optimizer.apply([ops.convert_to_tensor(gradient)], [weight])
    return float(weight.numpy())


def test_adagrad_accumulates_from_a_tenth() -> None:
    # 0.5 * 0.3 / sqrt(0.1 + 0.3²)
    assert after_one_step("adagrad", 0.3) == pytest.approx(1 - 0.3441236)


def test_adam_is_as_keras_has_it() -> None:
    # The first step has the length of the learning rate.
    assert after_one_step("adam", 0.3) == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_name_makes_what_it_says(name: str) -> None:
    optimizer = create_optimizer(name, 0.5)
    assert type(optimizer).__name__.lower() == name
    assert float(optimizer.learning_rate.numpy()) == 0.5
