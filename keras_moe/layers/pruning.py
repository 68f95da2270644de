from collections.abc import Mapping

import numpy as np
from keras import ops

from keras_moe.layers.gates.constant_gate import ConstantGate
from keras_moe.layers.gates.gate import Gate
from keras_moe.layers.mixture import Mixture
from keras_moe.layers.mmoe import MMoE
from keras_moe.layers.moe import MoE


def prune_experts(mixture: Mixture) -> Mixture:
    """Leaves out the experts that no gate of a trained mixture uses.

    Only static gates say, without looking at an example, which ones these
    are. The result is for inference: its gates are constants.

    Args:
        mixture: A built `MoE` or `MMoE`.

    Returns:
        A mixture with the same outputs and the weights of the experts in use
        (at least two experts, as a gate has no less). `mixture` itself where
        it uses all of them, or a gate is not static.

    Example:
        >>> gates = [ConstantGate(w) for w in ([0, 1, 0, 0], [0, 0, 0, 1])]
        >>> mixture = MMoE(gates, MLPExperts(4, 8))
        >>> mixture.build((None, 3))
        >>> prune_experts(mixture).experts.num_experts
        2
    """
    gates = mixture._gate_list
    if not all(gate.static for gate in gates):
        return mixture
    weights = np.stack([_static_weights(gate) for gate in gates])
    used = np.flatnonzero(weights.any(axis=0))
    num_experts = weights.shape[1]
    if len(used) == 1:
        used = np.sort([*used, (used[0] + 1) % num_experts])
    if len(used) == num_experts:
        return mixture
    constants = [ConstantGate(row[used]) for row in weights]
    experts = mixture.experts.subset(used.tolist())
    shared = mixture.shared_experts
    if isinstance(mixture, MoE):
        return MoE(
            constants[0], experts, mixture.execution, shared, name=mixture.name
        )
    assert isinstance(mixture, MMoE)
    by_task: dict[str, Gate] | list[Gate] = list(constants)
    if isinstance(mixture.gates, Mapping):
        by_task = dict(zip(mixture.gates, constants, strict=True))
    return MMoE(by_task, experts, mixture.execution, shared, name=mixture.name)


def _static_weights(gate: Gate) -> np.ndarray:
    # A static gate does not look at what it is given.
    weights = gate(ops.zeros((1, 1)), training=False)
    return np.asarray(ops.convert_to_numpy(weights))
