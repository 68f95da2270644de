import functools
from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_moe.compress.budgets import replaced_within
from keras_moe.compress.copies import replace_parts
from keras_moe.compress.fewer_experts import with_fewer_experts
from keras_moe.compress.report import Report
from keras_moe.layers.gates.gate import Gate
from keras_moe.layers.gates.grouped_gate import GroupedGate
from keras_moe.layers.mixture import Mixture
from keras_moe.types import Structure
from keras_moe.types import Tensor


def prune(
    model: keras.Model,
    data: Structure,
    num_experts: int,
    batch_size: int = 256,
    importance: str = "weight",
) -> tuple[keras.Model, Report]:
    """Keeps the most important experts of each mixture on given data.

    An expert's importance is the weight that the gates give it, added up over
    the rows of `data`, and for an `MMoE` over its tasks: `sum_x g_i(x)`. With
    `importance="output"` it is what an expert contributes, `sum_x g_i(x)
    ||f_i(x)||`, with the Euclidean norm of its output: an expert with much
    weight whose outputs are small is pruned before one with less weight and
    large outputs. This evaluates all experts on `data`. The `num_experts` of
    the largest importance remain, in their order, with their weights. The
    gates lose the others:

    * A gate with scores for each expert on its own (those of linear logits
      but `ExpertChoiceGate`, and `XMoEGate`) keeps the scores of the remaining
      ones, and selects among them: an example takes the next best instead of
      a pruned one.
    * All others, such as `COMETGate` and `DSelectKGate`, are wrapped in a
      `GroupedGate`, which shares the weight of pruned experts among the
      remaining ones of the row. A row without any goes to the most important
      one.
    * A `BudgetGate` stays around what becomes of the gate inside. Its
      thresholds become those of `data`, for budgets of 1 to `num_experts`, and
      its `k` and `train_budgets` are at most `num_experts`.

    Where pruned experts had no weight, the outputs stay the same, if the
    weights of the gate sum to 1 (`on_simplex`): softmax probabilities of all
    experts, as `SwitchGate` has them, become larger where there are fewer.

    Args:
        model: A built Keras model: functional, `Sequential` or a subclass.
            Keras must be able to save and load it, and its configuration must
            hold its mixtures. Every `MoE` and `MMoE` that it calls, also
            within other layers, is pruned, if it has more than `num_experts`;
            those among the experts of another, and in a `CGC` or `PLE`, are
            not.
        data: Inputs of the model, an array or a dict or list of arrays; or a
            tuple `(inputs, labels)` or `(inputs, labels, sample_weights)`.
        num_experts: Integer `>= 2`, the experts that a mixture keeps.
        batch_size: Integer, defaults to 256.
        importance: `"weight"` (default) or `"output"`; see above.

    Returns:
        A model with weights of its own, compiled like `model` with a new
        optimizer, and a `Report` of its cost on `data`. `model` is unchanged.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `model` is not built, cannot be saved and loaded with
            other experts, calls no mixture or none of more than `num_experts`,
            `data` holds no rows or arrays of different lengths, or `importance`
            is unknown.

    Example:
        >>> mixture = keras_moe.layers.MoE(
        ...     keras_moe.layers.TopKGate(8, k=2),
        ...     keras_moe.layers.MLPExperts(8, 16),
        ...     name="mixture",
        ... )
        >>> model = keras.Sequential([keras.Input((5,)), mixture])
        >>> smaller, report = prune(model, np.ones((4, 5)), num_experts=3)
        >>> smaller.get_layer("mixture").experts.num_experts
        3
        >>> report.max_difference  # All rows are alike, and had two experts.
        0.0

    References:
        Lu et al., Not All Experts are Equal: Efficient Expert Pruning and
        Skipping for Mixture-of-Experts Large Language Models, ACL 2024, which
        compares choices of experts on calibration data.
        Kim et al., Scalable and Efficient MoE Training for Multitask
        Multilingual Models, 2021 (choice by the use of an expert).
        Lasby et al., REAP the Experts: Why Pruning Prevails for One-Shot MoE
        Compression, 2025 (weight times norm; a mean over the rows that choose
        an expert there, over all rows here).
    """
    return with_fewer_experts(
        model, data, num_experts, batch_size, _prune, importance
    )


def _prune(mixture: Mixture, use: np.ndarray, num_experts: int) -> None:
    by_use = np.argsort(-use, kind="stable")
    kept = np.sort(by_use[:num_experts]).tolist()
    cut = functools.partial(cut_gate, kept=kept, fallback=kept.index(by_use[0]))
    replace_parts(
        mixture,
        mixture.experts.subset(kept),
        lambda gate: replaced_within(gate, cut),
    )


def cut_gate(gate: Gate, kept: Sequence[int], fallback: int) -> Gate:
    """Returns a gate over some of the experts of another.

    Args:
        gate: A built gate.
        kept: The experts that remain, in the order of the new gate.
        fallback: Of these, by its number in the new gate, the one for rows
            that lose all their experts.

    Returns:
        Where the gate has scores for each expert on its own (`separable`), a
        gate of its class with these scores, which selects among them anew.
        Otherwise a `GroupedGate`, which shares the weight of the others in
        proportion.
    """
    if not gate.separable:
        return GroupedGate(
            gate, [[expert] for expert in kept], fallback, name=gate.name
        )
    config = {**gate.get_config(), "num_experts": len(kept)}
    if config.get("k") is not None:
        config["k"] = min(config["k"], len(kept))
    cut: Gate = type(gate).from_config(config)
    cut.build(tuple(gate.get_build_config()["input_shape"]))
    for old, new in zip(gate.weights, cut.weights, strict=True):
        new.assign(_entries(old, tuple(new.shape), kept))
    return cut


def _entries(
    weight: Tensor, shape: tuple[int, ...], kept: Sequence[int]
) -> Tensor:
    """The weight, or what the axis of experts has of it for those kept."""
    values = ops.convert_to_tensor(weight)
    for axis, (old, new) in enumerate(zip(weight.shape, shape, strict=True)):
        if old != new:
            values = ops.take(values, list(kept), axis=axis)
    return values
