import keras

from recsys.optimizers import OPTIMIZERS


def create_optimizer(
    name: str, learning_rate: float
) -> keras.optimizers.Optimizer:
    """Creates an optimizer with its settings of `recsys.optimizers`.

    Args:
        name: Name of the optimizer.
        learning_rate: Its learning rate.
    """
    options = {"learning_rate": learning_rate, **OPTIMIZERS[name]}
    return keras.optimizers.get({"class_name": name, "config": options})
