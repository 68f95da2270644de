"""CPU time of a mixture by the budget of a call.

    KERAS_BACKEND=torch python benchmarks/budget_times.py --width 512 --rows 256

Milliseconds of a call of 16 experts, MLPs of two layers of the width, behind a
`BudgetGate`: dense execution, and `execution="auto"` with the budget as a
number, known when the call is compiled, and as a tensor. Medians of 7 calls;
TensorFlow by `tf.function`, JAX by `jax.jit`, PyTorch eagerly.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_moe.layers import BudgetGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import SoftmaxGate

NUM_EXPERTS = 16
BUDGETS = (1, 2, 4, 8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--rows", type=int, default=256)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    x = ops.convert_to_tensor(
        rng.normal(size=(arguments.rows, arguments.width)), "float32"
    )
    dense, sparse = (mixture(x, mode) for mode in ("dense", "auto"))
    tensors = [ops.convert_to_tensor(float(b), "float32") for b in BUDGETS]
    whole = milliseconds(compiled(dense), x, tensors[0])
    for budget, tensor in zip(BUDGETS, tensors, strict=True):
        number = milliseconds(compiled(sparse, float(budget)), x, tensor)
        graph = milliseconds(compiled(sparse), x, tensor)
        line = {
            "budget": budget,
            "number_ms": number,
            "tensor_ms": graph,
            "dense_ms": whole,
        }
        print(json.dumps(line))


def mixture(x: Any, execution: str) -> MoE:
    """A mixture whose gate has seen the rows as a batch of training."""
    width = x.shape[1]
    spread = keras.initializers.RandomNormal(stddev=2 * width**-0.5, seed=1)
    inner = SoftmaxGate(NUM_EXPERTS, kernel_initializer=spread)
    gate = BudgetGate(inner, k=2)
    experts = MLPExperts(NUM_EXPERTS, [width, width], seed=0)
    made = MoE(gate, experts, execution)
    made.build(x.shape)
    gate(x, training=True)
    return made


def compiled(
    mixture: MoE, number: float | None = None
) -> Callable[[Any, Any], Any]:
    """A call as the backend compiles it; of a number, if one is given."""

    def call(x: Any, budget: Any) -> Any:
        budget = budget if number is None else number
        return mixture(x, training=False, budget=budget)

    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.function(call)  # type: ignore[no-any-return]
    if backend == "jax":
        import jax

        return jax.jit(call)
    import torch

    return torch.no_grad()(call)


def milliseconds(call: Callable[[Any, Any], Any], x: Any, budget: Any) -> float:
    times = []
    for _ in range(9):
        before = time.process_time()
        ops.convert_to_numpy(call(x, budget))
        times.append(time.process_time() - before)
    return 1000 * float(np.median(times[2:]))


if __name__ == "__main__":
    main()
