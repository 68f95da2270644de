"""Times of overlapping experts: dense, masked, and active units alone.

    KERAS_BACKEND=torch python benchmarks/active_neurons.py \
        --widths 512 1024 4096 --keep-rates 0.1 0.5 --batches 1 2 4 8 16 32 64

Two networks, at inference:

    mlp      a perceptron of 4 layers, of as many inputs as units, or of
             `--inputs`: `ConditionallyOverlappingMLP`, `execution="dense"`
             (masked) and `"sparse"` (gathered), beside plain dense layers
             (dense);
    block    the feed-forward pair of a Transformer's block, d to 4 d to d
             with `--widths` 4 d: `ConditionalMask` after the first (masked),
             or only the active units' rows of the second matrix, by
             `keras_moe.ops.gathered_matmul` (gathered).

Prints one JSON line for each network, width, share of active units and batch:
milliseconds of a call, the fastest of `--repeats` rounds that take turns, and
how many times faster gathered is than dense and than masked. `--cpu-time`
counts the time that the process computes, not that of the clock: for a machine
that others load, and one thread.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops
from report import report

from keras_moe.layers import ConditionallyOverlappingMLP
from keras_moe.layers import ConditionalMask
from keras_moe.ops import gathered_matmul
from keras_moe.ops import top_k_indices

NUM_HIDDEN = 3
Call = Callable[[Any], Any]
Clock = Callable[[], float]


def mlps(width: int, inputs: int, keep_rate: float) -> dict[str, Call]:
    units = [width] * (NUM_HIDDEN + 1)
    masked = ConditionallyOverlappingMLP(units, keep_rate)
    masked.build((None, inputs))
    config = {**masked.get_config(), "execution": "sparse"}
    gathered = ConditionallyOverlappingMLP.from_config(config)
    gathered.build((None, inputs))
    gathered.set_weights(masked.get_weights())

    def dense(x: Any) -> Any:
        for layer in masked.dense_layers:
            x = layer(x)
        return x

    return {"dense": dense, "masked": masked, "gathered": gathered}


def blocks(width: int, inputs: int, keep_rate: float) -> dict[str, Call]:
    first = keras.layers.Dense(width, "tanh")
    second = keras.layers.Dense(inputs)
    mask = ConditionalMask(keep_rate)
    first.build((None, inputs))
    second.build((None, width))
    mask.build((None, width), (None, inputs))

    def dense(x: Any) -> Any:
        return second(first(x))

    def masked(x: Any) -> Any:
        return second(mask(first(x), x)[0])

    def gathered(x: Any) -> Any:
        # Any unit may be active: both projections of the input are whole.
        active = top_k_indices(ops.matmul(x, mask.routing_kernel), mask.k)
        hidden = ops.take_along_axis(first(x), active, axis=-1)
        return gathered_matmul(hidden, second.kernel, active) + second.bias

    return {"dense": dense, "masked": masked, "gathered": gathered}


NETWORKS = {"mlp": mlps, "block": blocks}


def compiled(function: Call) -> Call:
    """A function of an array, compiled as `predict` would."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(function)
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)
    import torch

    def without_gradients(x: Any) -> Any:
        with torch.no_grad():
            return function(x)

    return without_gradients


def seconds(function: Call, x: Any, calls: int, clock: Clock) -> float:
    start = clock()
    for _ in range(calls):
        outputs = function(x)
    ops.convert_to_numpy(outputs)  # Waits for it.
    return (clock() - start) / calls


def measure(
    calls: dict[str, Call], x: Any, repeats: int, clock: Clock
) -> dict[str, float]:
    """The fastest of rounds in which all take turns, milliseconds a call."""
    functions = {name: compiled(call) for name, call in calls.items()}
    outputs = {
        name: ops.convert_to_numpy(function(x))
        for name, function in functions.items()
    }
    np.testing.assert_allclose(
        outputs["gathered"], outputs["masked"], rtol=1e-3, atol=1e-4
    )
    counts = {
        name: max(1, int(0.02 / seconds(function, x, 2, clock)))
        for name, function in functions.items()
    }
    rounds = [
        {
            name: seconds(f, x, counts[name], clock)
            for name, f in functions.items()
        }
        for _ in range(repeats)
    ]
    return {name: 1000 * min(r[name] for r in rounds) for name in functions}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    add("--widths", type=int, nargs="+", default=[512, 1024, 4096])
    add("--inputs", type=int, help="of the perceptron; its width if not given")
    add("--keep-rates", type=float, nargs="+", default=[0.1, 0.5])
    add("--batches", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64])
    add("--repeats", type=int, default=9)
    add("--cpu-time", action="store_true")
    given = parser.parse_args()
    clock = time.process_time if given.cpu_time else time.perf_counter
    generator = np.random.default_rng(0)
    for network in given.networks:
        for width in given.widths:
            inputs = width // 4 if network == "block" else given.inputs or width
            for keep_rate in given.keep_rates:
                calls = NETWORKS[network](width, inputs, keep_rate)
                for batch in given.batches:
                    x = ops.convert_to_tensor(
                        generator.normal(size=(batch, inputs)), "float32"
                    )
                    times = measure(calls, x, given.repeats, clock)
                    report(
                        network=network,
                        width=width,
                        inputs=inputs,
                        keep_rate=keep_rate,
                        batch=batch,
                        **{k: round(v, 4) for k, v in times.items()},
                        over_dense=round(times["dense"] / times["gathered"], 2),
                        over_masked=round(
                            times["masked"] / times["gathered"], 2
                        ),
                    )


if __name__ == "__main__":
    main()
