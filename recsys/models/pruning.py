import keras

from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import prune_experts
from recsys.models.ranker import Ranker
from recsys.models.shared_tower import SharedTower


def without_unused_experts(ranker: Ranker) -> Ranker:
    """Leaves out the experts of a `MoE` or `MMoE` that no static gate uses.

    Args:
        ranker: A trained ranker.

    Returns:
        A ranker with the same predictions; `ranker` itself where nothing can
        be left out, as in the architectures `cgc` and `ple`.
    """
    mixture = _pruned(ranker.mixture)
    if mixture is ranker.mixture:
        return ranker
    return ranker.with_mixture(mixture)


def _pruned(layer: keras.layers.Layer) -> keras.layers.Layer:
    if isinstance(layer, (MoE, MMoE)):
        return prune_experts(layer)
    if isinstance(layer, SharedTower):
        inner = _pruned(layer.layer)
        if inner is not layer.layer:
            return SharedTower(inner, layer.tasks)
    return layer
