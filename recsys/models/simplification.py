"""Rankers with the same predictions and simpler mixtures, for exports."""

from collections.abc import Mapping

import keras
import numpy as np
from keras import ops

from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import PermutedGate
from keras_moe.layers import prune_experts
from recsys.models.ranker import Ranker
from recsys.models.shared_tower import SharedTower


def with_folded_permutation(ranker: Ranker) -> tuple[Ranker, np.ndarray | None]:
    """Puts the experts into the order that their gates are permuted to.

    The gates need no permutation then. All gates of a `MoE` or `MMoE` have to
    share one, as those of a run do whose gate has a `+`.

    Args:
        ranker: A trained ranker.

    Returns:
        A ranker with the same predictions, and the numbers `(n,)` that the
        experts of `ranker` have in it; `ranker` itself and `None` where there
        is no such permutation.
    """
    mixture, order = _folded(ranker.mixture)
    if order is None:
        return ranker, None
    return ranker.with_mixture(mixture), order


def _folded(
    layer: keras.layers.Layer,
) -> tuple[keras.layers.Layer, np.ndarray | None]:
    if isinstance(layer, SharedTower):
        inner, order = _folded(layer.layer)
        tower = layer if order is None else SharedTower(inner, layer.tasks)
        return tower, order
    if isinstance(layer, MoE):
        gates = {"": layer.gate}
    elif isinstance(layer, MMoE) and isinstance(layer.gates, Mapping):
        gates = dict(layer.gates)
    else:
        return layer, None
    if not all(isinstance(gate, PermutedGate) for gate in gates.values()):
        return layer, None
    permutations = [gate.permutation for gate in gates.values()]
    if any(permutation is not permutations[0] for permutation in permutations):
        return layer, None
    # Expert i gets entry order[i] of the gate: it becomes the expert of it.
    order = np.asarray(ops.convert_to_numpy(permutations[0].order))
    experts = layer.experts.subset(np.argsort(order).tolist())
    shared = layer.shared_experts
    inside = {task: gate.gate for task, gate in gates.items()}
    if isinstance(layer, MoE):
        mixture = MoE(
            inside[""], experts, layer.execution, shared, name=layer.name
        )
    else:
        mixture = MMoE(
            inside, experts, layer.execution, shared, name=layer.name
        )
    return mixture, order


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
