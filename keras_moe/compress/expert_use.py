import keras
import numpy as np
from keras import ops

from keras_moe.compress.examples import Examples
from keras_moe.layers.mixture import Mixture
from keras_moe.layers.routing_record import record_routing


def expert_use(
    model: keras.Model, examples: Examples
) -> dict[Mixture, np.ndarray]:
    """Measures how much the experts of each mixture of a model weigh.

    Args:
        model: A model that calls `MoE` or `MMoE` layers.
        examples: Its inputs. Padding, and rows with NaN, do not count.

    Returns:
        By mixture that was called, float64 `(n,)`: the weight of each expert,
        added up over rows, tasks and calls.

    Raises:
        ValueError: If the model calls no `MoE` or `MMoE`.
    """
    use: dict[Mixture, np.ndarray] = {}
    for batch in examples:
        with record_routing() as records:
            model(batch, training=False)
        for record in records:
            if isinstance(record.mixture, Mixture):
                # A masked row has no weight.
                totals = [_total(w) for w in record.weights.values()]
                earlier = use.get(record.mixture, np.zeros_like(totals[0]))
                use[record.mixture] = earlier + np.sum(totals, axis=0)
    if not use:
        raise ValueError(
            "`model` must call a `MoE` or an `MMoE`. Mixtures among the "
            "experts of another, and `CGC` or `PLE`, do not count. "
            f"Received: model={model!r}"
        )
    return use


def _total(weights: object) -> np.ndarray:
    """The sums `(n,)` of weights `(..., n)` over the rows without NaN."""
    rows = np.asarray(ops.convert_to_numpy(weights), "float64")
    rows = rows.reshape(-1, rows.shape[-1])
    return rows[~np.isnan(rows).any(axis=1)].sum(axis=0)
