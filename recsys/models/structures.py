"""The multi-task structures by the name that a command line gives them."""

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from math import prod

import keras

from keras_moe import layers
from keras_moe.layers.initialization import derived_seed
from recsys.config import TrainConfig
from recsys.models.gates import SEARCH_SUFFIX
from recsys.models.gates import create_gate
from recsys.models.gates import searches
from recsys.models.one_for_all import OneForAll


@dataclass
class Structures:
    """Makes what lies between the embeddings and the heads of a ranker.

    Every structure is a layer that takes features `(batch, width)` and gate
    inputs, and returns a dict of task to tensor `(batch, units)`.

    Args:
        config: A configuration whose open fields are settled.
        tasks: Names of the tasks.
        width: How many features the experts see.
        num_buckets: Number of ids, for the gates that route ids; 0 for the
            others.
    """

    config: TrainConfig
    tasks: Sequence[str]
    width: int
    num_buckets: int = 0

    def __post_init__(self) -> None:
        self._seeds_taken = 0

    def create(self) -> keras.layers.Layer:
        """Makes the structure that the configuration names."""
        make = {
            "shared-bottom": self._shared_bottom,
            "moe": self._moe,
            "mmoe": self._mmoe,
            "cgc": self._cgc,
            "ple": self._ple,
        }
        return make[self.config.structure]()

    def _mmoe(self) -> keras.layers.Layer:
        gates = self._gates(self.tasks, self.config.num_experts)
        experts = self._experts(self.config.num_experts)
        return layers.MMoE(gates, experts, self.config.execution)

    def _moe(self) -> keras.layers.Layer:
        gates = self._gates(["all"], self.config.num_experts)
        experts = self._experts(self.config.num_experts)
        mixture = layers.MoE(gates["all"], experts, self.config.execution)
        return OneForAll(mixture, self.tasks)

    def _shared_bottom(self) -> keras.layers.Layer:
        """An MLP with about as many parameters as the MMoE would have."""
        gate = self.config.gate.removesuffix(SEARCH_SUFFIX)
        config = replace(self.config, structure="mmoe", gate=gate)
        mmoe = replace(self, config=config).create()
        features = (None, self.width)
        mmoe.build(features, (None,) if self.num_buckets else features)
        budget = sum(prod(weight.shape) for weight in mmoe.trainable_weights)
        *hidden, last = self.config.expert_units
        depth = max(1, len(hidden))
        units = _widest(self.width, depth, last, budget)
        parts: list[keras.layers.Layer] = []
        for size in [*[units] * depth, last]:
            parts += [
                keras.layers.Dense(size, activation="relu"),
                keras.layers.Dropout(
                    self.config.expert_dropout, seed=self._next_seed()
                ),
            ]
        return OneForAll(keras.Sequential(parts), self.tasks)

    def _cgc(self) -> keras.layers.Layer:
        return self._level(is_last=True, name="cgc")

    def _ple(self) -> keras.layers.Layer:
        last = self.config.num_levels - 1
        return layers.PLE(
            [
                self._level(level == last, name=f"level_{level + 1}")
                for level in range(last + 1)
            ]
        )

    def _level(self, is_last: bool, name: str) -> keras.layers.Layer:
        shared, own = self.config.num_experts, self.config.task_experts
        shared_gate = None
        if not is_last:
            everyone = shared + own * len(self.tasks)
            shared_gate = self._gates(["shared"], everyone)["shared"]
        return layers.CGC(
            self._gates(self.tasks, shared + own),
            self._experts(shared),
            {task: self._experts(own) for task in self.tasks},
            shared_gate,
            self.config.execution,
            name=name,
        )

    def _gates(
        self, names: Sequence[str], num_experts: int
    ) -> dict[str, layers.Gate]:
        config = self.config
        gates = {
            name: create_gate(
                config.gate,
                num_experts,
                config.k,
                self.num_buckets,
                self._next_seed(),
                config.gate_options,
            )
            for name in names
        }
        if not searches(config.gate):
            return gates
        # One permutation for all of them, as published. Columns of the logs are
        # named after it, in every process alike.
        permutation = layers.SinkhornPermutation(
            num_experts,
            config.search_entropy_weight,
            seed=self._next_seed(),
            name=f"permutation_{self._seeds_taken}",
        )
        return {
            name: layers.PermutedGate(gate, permutation)
            for name, gate in gates.items()
        }

    def _experts(self, num_experts: int) -> layers.MLPExperts:
        return layers.MLPExperts(
            num_experts,
            self.config.expert_units,
            dropout=self.config.expert_dropout,
            # Without one, PyTorch drops out by a state that is not the model's.
            seed=self._next_seed(),
        )

    def _next_seed(self) -> int:
        self._seeds_taken += 1
        return derived_seed(self.config.seed, self._seeds_taken - 1)


def _widest(width: int, depth: int, last: int, budget: int) -> int:
    """The hidden width with which an MLP comes closest to a budget.

    Args:
        width: Inputs of the MLP.
        depth: Number of hidden layers, all of one width.
        last: Width of the layer after them.
        budget: Number of parameters.
    """

    def parameters(units: int) -> int:
        hidden = (width + 1) * units + (depth - 1) * (units + 1) * units
        return hidden + (units + 1) * last

    units = 1
    while abs(parameters(units + 1) - budget) < abs(parameters(units) - budget):
        units += 1
    return units
