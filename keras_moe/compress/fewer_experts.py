from collections.abc import Callable

import keras
import numpy as np
from keras import ops

from keras_moe.checks import check_size
from keras_moe.compress.budgets import keep_budgets
from keras_moe.compress.copies import copied
from keras_moe.compress.copies import finished
from keras_moe.compress.examples import Examples
from keras_moe.compress.report import Report
from keras_moe.compress.report import compared
from keras_moe.layers.gated_layer import rows_of
from keras_moe.layers.mixture import Mixture
from keras_moe.layers.routing_record import RoutingRecord
from keras_moe.layers.routing_record import record_routing
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
    keep_budgets(result, examples, counts)
    return result, compared(model, result, counts, examples)


def expert_use(
    model: keras.Model, examples: Examples, importance: str = "weight"
) -> dict[Mixture, np.ndarray]:
    """Measures how much the experts of each mixture of a model count.

    Args:
        model: A model that calls `MoE` or `MMoE` layers.
        examples: Its inputs. Padding, and rows with NaN, do not count.
        importance: `"weight"`, the weight of an expert; or `"output"`, that
            times the Euclidean norm of its output for the row.

    Returns:
        By mixture that was called, float64 `(n,)`: the importance of each
        expert, added up over rows, tasks and calls.

    Raises:
        ValueError: If the model calls no `MoE` or `MMoE`, or `importance` is
            unknown.
    """
    if importance not in IMPORTANCE:
        raise ValueError(
            f"`importance` must be one of {sorted(IMPORTANCE)}. "
            f"Received: importance={importance!r}"
        )
    use: dict[Mixture, np.ndarray] = {}
    for batch in examples:
        with record_routing() as records:
            model(batch, training=False)
        for record in records:
            if isinstance(record.mixture, Mixture):
                total = IMPORTANCE[importance](record)
                use[record.mixture] = use.get(record.mixture, 0.0) + total
    if not use:
        raise ValueError(
            "`model` must call a `MoE` or an `MMoE`. Mixtures among the "
            "experts of another, and `CGC` or `PLE`, do not count. "
            f"Received: model={model!r}"
        )
    return use


def _weights(record: RoutingRecord) -> np.ndarray:
    """Returns the weights, added up over the rows and tasks of a call."""
    # A masked row has no weight.
    return np.sum([_total(_rows(w)) for w in record.weights.values()], axis=0)


def _weighted_outputs(record: RoutingRecord) -> np.ndarray:
    """Returns the same of the weights times the norms of the outputs."""
    assert isinstance(record.mixture, Mixture)
    assert record.inputs is not None
    experts, masks = record.mixture.experts, [*record.masks.values()]
    rank = len(next(iter(record.weights.values())).shape) - 1
    outputs = experts(
        rows_of(experts, record.inputs, rank, masks), training=False
    )  # (N, E, ...)
    outputs = ops.reshape(outputs, (*outputs.shape[:2], -1))  # (N, E, H)
    norms = np.linalg.norm(_array(outputs), axis=-1)  # (N, E)
    totals = [
        # No weight of what is not finite is none.
        _total(np.where(rows == 0, 0.0, rows * norms))
        for rows in map(_rows, record.weights.values())
    ]
    return np.sum(totals, axis=0)


IMPORTANCE: dict[str, Callable[[RoutingRecord], np.ndarray]] = {
    "weight": _weights,
    "output": _weighted_outputs,
}


def _rows(weights: object) -> np.ndarray:
    """Weights `(..., n)` as `(N, n)`."""
    rows = _array(weights)
    return rows.reshape(-1, rows.shape[-1])


def _array(values: object) -> np.ndarray:
    # NumPy has no bfloat16.
    values = ops.convert_to_numpy(ops.cast(values, "float32"))
    return np.asarray(values, "float64")


def _total(rows: np.ndarray) -> np.ndarray:
    """The sums `(n,)` over the rows without NaN."""
    return np.asarray(rows[~np.isnan(rows).any(axis=1)].sum(axis=0))
