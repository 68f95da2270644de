from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_moe.compress.alignment import Perceptron
from keras_moe.compress.alignment import aligned
from keras_moe.compress.budgets import replaced_within
from keras_moe.compress.copies import replace_parts
from keras_moe.compress.fewer_experts import with_fewer_experts
from keras_moe.compress.report import Report
from keras_moe.layers.experts.mlp_experts import MLPExperts
from keras_moe.layers.gates.grouped_gate import GroupedGate
from keras_moe.layers.mixture import Mixture
from keras_moe.types import Structure


def merge(
    model: keras.Model,
    data: Structure,
    num_experts: int,
    batch_size: int = 256,
) -> tuple[keras.Model, Report]:
    """Merges the experts of each mixture into fewer.

    1. The `num_experts` that weigh most on `data` (as in `prune`) lead a
       group each.
    2. Of every other expert, the hidden units are put into the order of each
       leader's (a linear assignment that minimises the squared distance of
       the weights); it joins the leader it is then nearest to.
    3. A group becomes one expert: the mean of its members' weights, in the
       leader's order, weighted by their use on `data`.
    4. The gate becomes a `GroupedGate`, which adds up the weights of the
       members: a row's weights keep their sum. A `BudgetGate` stays around
       that, as in `prune`.

    Where the experts of a group are the same up to the order of their hidden
    units, the outputs stay the same.

    Args:
        model: A built Keras model: functional, `Sequential` or a subclass.
            Keras must be able to save and load it, and its configuration must
            hold its mixtures. Every `MoE` and `MMoE` that it calls, also
            within other layers, is merged, if it has more than `num_experts`;
            those among the experts of another, and in a `CGC` or `PLE`, are
            not. Their experts must be `MLPExperts`, their gates may be any.
        data: Inputs of the model, an array or a dict or list of arrays; or a
            tuple `(inputs, labels)` or `(inputs, labels, sample_weights)`.
        num_experts: Integer `>= 2`, the experts that a mixture is left with.
        batch_size: Integer, defaults to 256.

    Returns:
        A model with weights of its own, compiled like `model` with a new
        optimizer, and a `Report` of its cost on `data`. `model` is unchanged.

    Raises:
        TypeError: If an argument has the wrong type, or the experts of a
            mixture are not `MLPExperts`.
        ValueError: If `model` is not built, cannot be saved and loaded with
            other experts, calls no mixture or none of more than `num_experts`,
            or `data` holds no rows or arrays of different lengths.

    Example:
        >>> mixture = keras_moe.layers.MoE(
        ...     keras_moe.layers.TopKGate(8, k=2),
        ...     keras_moe.layers.MLPExperts(8, [16, 4]),
        ...     name="mixture",
        ... )
        >>> model = keras.Sequential([keras.Input((5,)), mixture])
        >>> smaller, report = merge(model, np.ones((4, 5)), num_experts=3)
        >>> smaller.get_layer("mixture").experts.num_experts
        3

    References:
        Li et al., Merge, Then Compress: Demystify Efficient SMoE with Hints
        from Its Routing Policy, ICLR 2024 (M-SMoE; groups here follow the
        weights of experts instead of router logits, which not all gates
        have).
        Ainsworth et al., Git Re-Basin: Merging Models modulo Permutation
        Symmetries, ICLR 2023, section 3.2.
    """
    return with_fewer_experts(model, data, num_experts, batch_size, _merge)


def _merge(mixture: Mixture, use: np.ndarray, num_experts: int) -> None:
    bank = mixture.experts
    if type(bank) is not MLPExperts:
        raise TypeError(
            "`model` must have mixtures of `MLPExperts`, whose weights can be "
            f"averaged. Received: {bank!r} in {mixture.name!r}"
        )
    groups, merged = merged_experts(_perceptrons(bank), use, num_experts)
    leaders = [group[0] for group in groups]
    replace_parts(
        mixture,
        _with_weights(bank.subset(leaders), merged),
        lambda gate: replaced_within(
            gate, lambda inner: GroupedGate(inner, groups, name=inner.name)
        ),
    )


def merged_experts(
    experts: Sequence[Perceptron], use: np.ndarray, num_experts: int
) -> tuple[list[list[int]], list[Perceptron]]:
    """Groups experts around the most used ones, and merges each group.

    Args:
        experts: The experts.
        use: Numbers `(n,)` `>= 0`, the use of each expert.
        num_experts: Integer, the number of groups.

    Returns:
        The groups, lists of experts whose first one leads it, in the order of
        the leaders; and the expert that each becomes.
    """
    leaders = np.sort(np.argsort(-use, kind="stable")[:num_experts]).tolist()
    groups = {leader: [leader] for leader in leaders}
    in_order = {leader: [experts[leader]] for leader in leaders}
    for expert in range(len(experts)):
        if expert in groups:
            continue
        versions = {
            leader: aligned(experts[expert], experts[leader])
            for leader in leaders
        }
        nearest = min(leaders, key=lambda x: experts[x].distance(versions[x]))
        groups[nearest].append(expert)
        in_order[nearest].append(versions[nearest])
    return list(groups.values()), [
        _mean(in_order[leader], use[groups[leader]]) for leader in leaders
    ]


def _mean(experts: Sequence[Perceptron], use: np.ndarray) -> Perceptron:
    """The mean of aligned experts, by their use."""
    # Without any, as of groups that no row takes, all count alike.
    shares = (
        use / use.sum() if use.sum() > 0 else np.full(len(use), 1 / len(use))
    )

    def mean(arrays: Sequence[np.ndarray]) -> np.ndarray:
        return np.einsum("e,e...->...", shares, np.stack(arrays))

    return Perceptron(
        list(map(mean, zip(*(e.kernels for e in experts), strict=True))),
        list(map(mean, zip(*(e.biases for e in experts), strict=True))),
    )


def _perceptrons(bank: MLPExperts) -> list[Perceptron]:
    kernels = [_array(kernel) for kernel in bank.kernels]
    biases = [_array(bias) for bias in bank.biases] or [
        np.zeros_like(kernel[:, 0]) for kernel in kernels
    ]
    return [
        Perceptron([k[expert] for k in kernels], [b[expert] for b in biases])
        for expert in range(bank.num_experts)
    ]


def _array(weight: keras.Variable) -> np.ndarray:
    return np.asarray(ops.convert_to_numpy(weight), "float64")


def _with_weights(
    bank: MLPExperts, experts: Sequence[Perceptron]
) -> MLPExperts:
    for layer, kernel in enumerate(bank.kernels):
        kernel.assign(np.stack([expert.kernels[layer] for expert in experts]))
    for layer, bias in enumerate(bank.biases):
        bias.assign(np.stack([expert.biases[layer] for expert in experts]))
    return bank
