import keras

from keras_moe.layers import CGC
from keras_moe.layers import PLE
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.shared_tower import SharedTower


def shared_weights(model: MultiTaskModel) -> list[keras.Variable]:
    """Returns the last trainable weights that the losses of all tasks share.

    They are those of the experts that all tasks have, of the last level where
    there are several, or of the shared bottom. Gates, heads and experts of one
    task's own are not among them.

    Args:
        model: A built model.
    """
    layer = model.mixture
    if isinstance(layer, SharedTower):
        layer = layer.layer
    if isinstance(layer, PLE):
        layer = layer.levels[-1]
    if isinstance(layer, MMoE | MoE):
        layer = layer.experts
    if isinstance(layer, CGC):
        layer = layer.shared_experts
    return list(layer.trainable_variables)
