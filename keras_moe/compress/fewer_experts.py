from collections.abc import Callable

import keras
import numpy as np

from keras_moe.checks import check_size
from keras_moe.compress.copies import copied
from keras_moe.compress.copies import finished
from keras_moe.compress.examples import Examples
from keras_moe.compress.expert_use import expert_use
from keras_moe.compress.report import Report
from keras_moe.compress.report import compared
from keras_moe.layers.mixture import Mixture
from keras_moe.types import Structure


def with_fewer_experts(
    model: keras.Model,
    data: Structure,
    num_experts: int,
    batch_size: int,
    lessen: Callable[[Mixture, np.ndarray, int], None],
    importance: str = "weight",
) -> tuple[keras.Model, Report]:
    """Changes the mixtures of a copy that have more than so many experts.

    Args:
        model: As in `prune`, and so are the next three.
        data: The data.
        num_experts: Integer `>= 2`, the experts that a mixture keeps.
        batch_size: Integer.
        lessen: Gives a mixture of the copy other parts. It gets the mixture,
            the use of its experts on `data`, `(n,)`, and `num_experts`.
        importance: As in `prune`.

    Returns:
        The changed copy, and a `Report` of its cost on `data`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `model` is not built, cannot be saved and loaded with
            other experts, calls no mixture or none of more than `num_experts`,
            `data` holds no rows or arrays of different lengths, or `importance`
            is unknown.
    """
    check_size("num_experts", num_experts, 2)
    examples = Examples(data, batch_size)
    edited = copied(model)
    use = expert_use(edited, examples, importance)
    before = {mixture.name: len(total) for mixture, total in use.items()}
    if max(before.values()) <= num_experts:
        raise ValueError(
            "`num_experts` must be below the number of experts of some "
            f"mixture, {before}. Received: num_experts={num_experts}"
        )
    counts = {}
    for mixture, total in use.items():
        if len(total) > num_experts:
            lessen(mixture, total, num_experts)
            counts[mixture.name] = len(total), num_experts
    result = finished(edited, model)
    return result, compared(model, result, counts, examples)
