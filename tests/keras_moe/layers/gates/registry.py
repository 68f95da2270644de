"""Every gate, as the tests of what all gates have in common make it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_moe.layers import BudgetGate
from keras_moe.layers import COMETGate
from keras_moe.layers import DSelectKGate
from keras_moe.layers import ExpertChoiceGate
from keras_moe.layers import Gate
from keras_moe.layers import GroupedGate
from keras_moe.layers import GumbelSoftmaxGate
from keras_moe.layers import HashGate
from keras_moe.layers import MOESARTGate
from keras_moe.layers import PermutedGate
from keras_moe.layers import ReMoEGate
from keras_moe.layers import SinkhornPermutation
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import SwitchGate
from keras_moe.layers import TopKGate
from keras_moe.layers import VMoEGate
from keras_moe.layers import XMoEGate

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
    "top-k-sigmoid": lambda **kw: TopKGate(
        NUM_EXPERTS, k=2, scores="sigmoid", **kw
    ),
    "top-k-bias": lambda **kw: TopKGate(NUM_EXPERTS, k=2, balance="bias", **kw),
    # As in DeepSeek-V3, but for groups of one: five experts have no others.
    "top-k-groups": lambda **kw: TopKGate(
        NUM_EXPERTS,
        k=2,
        scores="sigmoid",
        balance="bias",
        route_scale=2.5,
        num_groups=NUM_EXPERTS,
        groups_per_example=3,
        **kw,
    ),
    "v-moe": lambda **kw: VMoEGate(NUM_EXPERTS, k=2, **kw),
    "switch": lambda **kw: SwitchGate(NUM_EXPERTS, **kw),
    # The logarithm of this temperature is 0, like all that is not drawn.
    "x-moe": lambda **kw: XMoEGate(NUM_EXPERTS, k=2, temperature=1.0, **kw),
    "hash": lambda **kw: HashGate(NUM_EXPERTS, num_buckets=50, **kw),
    "gumbel-softmax-static": lambda **kw: GumbelSoftmaxGate(NUM_EXPERTS, **kw),
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
    "moesart": lambda **kw: MOESARTGate(
        NUM_EXPERTS, k=2, trimmed_lasso_weight=0.1, **kw
    ),
    "moesart-replacement": lambda **kw: MOESARTGate(
        NUM_EXPERTS, k=2, replacement=True, **kw
    ),
    "expert-choice": lambda **kw: ExpertChoiceGate(NUM_EXPERTS, **kw),
    "expert-choice-capped": lambda **kw: ExpertChoiceGate(
        NUM_EXPERTS, max_experts_per_token=3, **kw
    ),
    "remoe": lambda **kw: ReMoEGate(NUM_EXPERTS, k=2, **kw),
    "permuted-top-k": lambda **kw: PermutedGate(
        TopKGate(NUM_EXPERTS, k=2, **kw),
        SinkhornPermutation(
            NUM_EXPERTS, entropy_weight=0.0, seed=kw.get("seed")
        ),
    ),
    "grouped-top-k": lambda **kw: GroupedGate(
        TopKGate(NUM_EXPERTS + 2, k=2, **kw),
        # The last two are merged into the first and the third.
        [
            [expert, NUM_EXPERTS + expert // 2]
            if expert in (0, 2)
            else [expert]
            for expert in range(NUM_EXPERTS)
        ],
    ),
    "grouped-without-some": lambda **kw: GroupedGate(
        TopKGate(NUM_EXPERTS + 2, k=2, **kw),
        [[expert] for expert in range(NUM_EXPERTS + 2) if expert not in (1, 4)],
        fallback=1,
    ),
    "budget": lambda **kw: BudgetGate(SoftmaxGate(NUM_EXPERTS, **kw), k=2),
    "budget-mass": lambda **kw: BudgetGate(
        TopKGate(NUM_EXPERTS, k=3, **kw), mass=0.6
    ),
}

# What the gates say of themselves; the tests hold them to it.
_GATES = {name: make() for name, make in GATES.items()}
_CONFIGS = {name: gate.get_config() for name, gate in _GATES.items()}

# Are told the number of experts; the others have it from a gate inside.
COUNTING = [name for name in GATES if "num_experts" in _CONFIGS[name]]
ON_SIMPLEX = [name for name in GATES if _GATES[name].on_simplex]
# No example may have more than k experts at inference.
AT_MOST_K = [
    name
    for name, gate in _GATES.items()
    if gate.always_sparse or (gate.k is not None and gate.is_bounded(False))
]
# They promise nothing, but their decisions are certain.
AT_MOST_K += [n for n in GATES if _CONFIGS[n].get("gamma") == HARD]
# Have weights that are trained, drawn when the gate is built.
TRAINED = [
    name
    for name in COUNTING
    if any(argument.endswith("_initializer") for argument in _CONFIGS[name])
]
PER_EXAMPLE = [name for name in GATES if not _GATES[name].static]
ON_FEATURES = [
    name
    for name in TRAINED
    if name in PER_EXAMPLE and _GATES[name].feature_rank == 1
]


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
