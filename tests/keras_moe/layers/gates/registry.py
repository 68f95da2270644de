"""Every gate, as the tests of what all gates have in common make it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_moe.layers import COMETGate
from keras_moe.layers import DSelectKGate
from keras_moe.layers import Gate
from keras_moe.layers import HashGate
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate

NUM_EXPERTS = 5
NUM_FEATURES = 4
# Decisions this narrow, drawn this wide, are certain.
HARD = 1e-6
WIDE = "random_normal"

GATES: dict[str, Callable[..., Gate]] = {
    "softmax": lambda **kw: SoftmaxGate(NUM_EXPERTS, **kw),
    "softmax-static": lambda **kw: SoftmaxGate(NUM_EXPERTS, static=True, **kw),
    "top-k": lambda **kw: TopKGate(NUM_EXPERTS, k=2, **kw),
    "top-k-noisy": lambda **kw: TopKGate(NUM_EXPERTS, k=2, noisy=True, **kw),
    "top-k-static": lambda **kw: TopKGate(NUM_EXPERTS, k=2, static=True, **kw),
    "hash": lambda **kw: HashGate(NUM_EXPERTS, num_buckets=50, **kw),
    "dselect-k": lambda **kw: DSelectKGate(
        NUM_EXPERTS, k=2, entropy_weight=0.1, **kw
    ),
    "dselect-k-hard": lambda **kw: DSelectKGate(
        NUM_EXPERTS, k=2, **{"gamma": HARD, "selector_initializer": WIDE, **kw}
    ),
    "dselect-k-penalty": lambda **kw: DSelectKGate(
        NUM_EXPERTS, k=2, unreachable="penalty", **kw
    ),
    "dselect-k-static": lambda **kw: DSelectKGate(
        NUM_EXPERTS, k=2, static=True, **kw
    ),
    "comet": lambda **kw: COMETGate(NUM_EXPERTS, k=2, entropy_weight=0.1, **kw),
    "comet-hard": lambda **kw: COMETGate(
        NUM_EXPERTS, k=2, **{"gamma": HARD, "split_initializer": WIDE, **kw}
    ),
}

# Their weights sum to 1.
ON_SIMPLEX = [name for name in GATES if name != "dselect-k-penalty"]
# No example may have more than k experts.
AT_MOST_K = [name for name in GATES if "hard" in name or "top-k" in name]
AT_MOST_K.append("hash")
# Have weights that are trained, drawn when the gate is built.
TRAINED = [name for name in GATES if name != "hash"]
PER_EXAMPLE = [name for name in GATES if "static" not in name]
ON_FEATURES = [name for name in TRAINED if name in PER_EXAMPLE]


def build_gate(name: str, **kwargs: Any) -> Gate:
    """Makes and builds a gate for the inputs of `make_inputs`."""
    gate = GATES[name](**kwargs)
    gate.build((None, NUM_FEATURES)[: 1 + gate.feature_rank])
    return gate


def make_inputs(
    gate: Gate, rng: np.random.Generator, leading: tuple[int, ...] = (6,)
) -> np.ndarray[Any, Any]:
    """Random features or ids with the given leading dimensions."""
    if gate.feature_rank == 0:
        return rng.integers(1000, size=leading).astype("int32")
    return rng.normal(size=(*leading, NUM_FEATURES)).astype("float32")
