"""The multi-task architectures by the name that a command line gives them."""

from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from functools import partial
from math import prod

import keras
import numpy as np

from keras_moe import layers
from recsys.config.presets import PRESETS
from recsys.config.resolved_config import ResolvedConfig
from recsys.models.gates import create_gate
from recsys.models.gates import gate_class
from recsys.models.shared_tower import SharedTower

# The rank of the masks of inputs, for the architecture home.
MASK_RANK = 4

# Experts as the mixtures take them.
Bank = layers.MLPExperts | list[keras.layers.Layer]


@dataclass
class Architectures:
    """Makes what lies between the inputs and the heads of a model.

    Every architecture is a layer that takes what the experts and what the gates
    see, and returns a dict of task to tensor `(batch, units)`.

    Args:
        config: A configuration.
        tasks: Names of the tasks.
        num_buckets: Number of ids, for the gates that route ids; 0 for the
            others.
    """

    config: ResolvedConfig
    tasks: Sequence[str]
    num_buckets: int

    def __post_init__(self) -> None:
        self._seeds_taken = 0

    def create(self) -> keras.layers.Layer:
        """Makes the architecture that the configuration names."""
        make = {
            "shared-bottom": self._shared_bottom,
            "moe": self._moe,
            "mmoe": self._mmoe,
            "cgc": self._cgc,
            "ple": self._ple,
            "adatt": self._adatt,
            "stem": self._stem,
            "home": self._home,
        }
        return make[self.config.architecture]()

    def _mmoe(self) -> keras.layers.Layer:
        gates = self._gates(self.tasks, self.config.routed_experts)
        experts = self._experts(self.config.routed_experts)
        return layers.MMoE(
            gates, experts, self.config.execution, self._shared_experts()
        )

    def _moe(self) -> keras.layers.Layer:
        gates = self._gates(["all"], self.config.routed_experts)
        experts = self._experts(self.config.routed_experts)
        mixture = layers.MoE(
            gates["all"], experts, self.config.execution, self._shared_experts()
        )
        return SharedTower(mixture, self.tasks)

    def _shared_bottom(self) -> keras.layers.Layer:
        """Makes an architecture without experts."""
        raise NotImplementedError

    def _experts(self, num_experts: int) -> Bank:
        """Makes that many experts."""
        raise NotImplementedError

    def _shared_experts(self) -> Bank | None:
        """Makes the experts that all rows take, as large as the others."""
        count = self.config.shared_experts
        return self._experts(count) if count else None

    def _cgc(self) -> keras.layers.Layer:
        return self._level(is_last=True, name="cgc")

    def _ple(self) -> keras.layers.Layer:
        return self._levels(layers.CGC)

    def _stem(self) -> keras.layers.Layer:
        return self._level(is_last=True, name="stem", create=layers.STEM)

    def _adatt(self) -> keras.layers.Layer:
        return self._levels(partial(layers.AdaTT, seed=self._next_seed()))

    def _levels(self, create: Callable[..., layers.CGC]) -> keras.layers.Layer:
        last = self.config.num_levels - 1
        return layers.PLE(
            [
                self._level(level == last, f"level_{level + 1}", create)
                for level in range(last + 1)
            ]
        )

    def _level(
        self,
        is_last: bool,
        name: str,
        create: Callable[..., layers.CGC] = layers.CGC,
    ) -> keras.layers.Layer:
        shared, specific = self.config.num_experts, self.config.task_experts
        of_gate = self.config.experts_of_gate(len(self.tasks))[-1]
        shared_gate = None
        if not is_last:
            everyone = shared + specific * len(self.tasks)
            shared_gate = self._gates(["shared"], everyone)["shared"]
        return create(
            self._gates(self.tasks, of_gate),
            self._experts(shared),
            {task: self._experts(specific) for task in self.tasks},
            shared_gate,
            self.config.execution,
            name=name,
        )

    def _home(self) -> keras.layers.Layer:
        """Two levels: groups of tasks, then tasks of these groups."""
        shared, specific = self.config.num_experts, self.config.task_experts
        execution = self.config.execution
        group_of = {
            task: self.config.task_groups.get(task, "tasks")
            for task in self.tasks
        }
        groups = list(dict.fromkeys(group_of.values()))
        everyone = shared + specific * len(groups)
        of_groups = layers.CGC(
            self._gates(groups, shared + specific),
            self._experts(shared),
            {group: self._experts(specific) for group in groups},
            self._gates(["shared"], everyone)["shared"],
            execution,
            self_gates=self._gates(groups, specific),
            name="groups",
        )
        of_tasks = layers.CGC(
            self._gates(self.tasks, shared + 2 * specific),
            self._experts(shared),
            {task: self._experts(specific) for task in self.tasks},
            execution=execution,
            self_gates=self._gates(self.tasks, specific),
            group_experts={group: self._experts(specific) for group in groups},
            task_groups=group_of,
            name="tasks",
        )
        return layers.HoME(of_groups, of_tasks)

    def _gates(
        self, names: Sequence[str], num_experts: int
    ) -> dict[str, layers.Gate]:
        config = self.config
        seeds = {name: self._next_seed() for name in names}
        is_drawn = gate_class(config.gate).fixed_by_seed
        if config.hash_tables == "shared" and is_drawn:
            seeds = dict.fromkeys(names, seeds[names[0]])
        gates = {
            name: create_gate(
                config.gate,
                num_experts,
                config.k,
                self.num_buckets,
                seed,
                config.gate_options,
            )
            for name, seed in seeds.items()
        }
        if not config.gate_choice.searched:
            return gates
        # One permutation for all of them, as published. Columns of the logs are
        # named after it, in every process alike.
        permutation = layers.SinkhornPermutation(
            num_experts,
            config.search_entropy_weight,
            seed=self._next_seed(),
            normalized=config.search_normalized,
            schedule=config.search_schedule,
            name=f"permutation_{self._seeds_taken}",
        )
        return {
            name: layers.PermutedGate(gate, permutation)
            for name, gate in gates.items()
        }

    def _dense_layers(self, units: Sequence[int]) -> list[keras.layers.Layer]:
        """ReLU layers of those widths, each with the experts' dropout."""
        parts: list[keras.layers.Layer] = []
        for width in units:
            parts += [
                keras.layers.Dense(width, activation="relu"),
                keras.layers.Dropout(
                    self.config.expert_dropout, seed=self._next_seed()
                ),
            ]
        return parts

    def _next_seed(self) -> int:
        sequence = np.random.SeedSequence([self.config.seed, self._seeds_taken])
        self._seeds_taken += 1
        # Keras wants a signed number of 32 bits.
        return int(sequence.generate_state(1)[0] >> 1)


@dataclass
class TableArchitectures(Architectures):
    """Makes what lies between the embeddings and the heads of a ranker.

    The experts see features `(batch, width)`.

    Args:
        width: How many features the experts see.
    """

    width: int

    def _shared_bottom(self) -> keras.layers.Layer:
        """An MLP of the given widths, or as large as the MMoE would be."""
        units = self.config.bottom_units or self._units_of_mixture_size()
        parts = self._dense_layers(units)
        return SharedTower(keras.Sequential(parts), self.tasks)

    def _units_of_mixture_size(self) -> list[int]:
        """Widths with about as many parameters as the MMoE would have."""
        config = replace(
            self.config,
            architecture="mmoe",
            gate=self.config.gate_choice.name,
        )
        mmoe = replace(self, config=config).create()
        features = (None, self.width)
        mmoe.build(features, (None,) if self.num_buckets else features)
        budget = sum(prod(weight.shape) for weight in mmoe.trainable_weights)
        *hidden, last = self.config.expert_units
        depth = max(1, len(hidden))
        return [_widest(self.width, depth, last, budget)] * depth + [last]

    def _experts(self, num_experts: int) -> Bank:
        units, dropout = self.config.routed_units, self.config.expert_dropout
        # Without a seed, PyTorch drops out by a state that is not the model's.
        seed = self._next_seed()
        if self.config.architecture == "home":
            return layers.HoMEExperts(
                num_experts,
                units,
                mask_rank=MASK_RANK,
                dropout=dropout,
                seed=seed,
            )
        return layers.MLPExperts(num_experts, units, dropout=dropout, seed=seed)


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


@dataclass
class ImageArchitectures(Architectures):
    """Makes what lies between the images and the heads of a classifier.

    Every expert is a CNN on images `(batch, height, width, channels)`. A
    shared bottom is one such CNN, as in appendix D.2 of DSelect-k.

    Raises:
        ValueError: The architecture feeds experts with the outputs of others,
            or with embeddings.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.config.architecture in ("ple", "adatt", "stem", "home"):
            what = "its second level takes vectors"
            if self.config.architecture == "stem":
                what = "it takes embeddings of each task"
            raise ValueError(
                f"`architecture` must not be {self.config.architecture!r} for "
                f"images: {what}. "
                f"Received: architecture={self.config.architecture!r}"
            )
        if self.config.split_experts > 1:
            raise ValueError(
                "`split_experts` must be 1 for images: experts are CNNs. "
                f"Received: split_experts={self.config.split_experts}"
            )

    def _shared_bottom(self) -> keras.layers.Layer:
        units = self.config.bottom_units or self.config.expert_units
        return SharedTower(self._cnn(units), self.tasks)

    def _experts(self, num_experts: int) -> Bank:
        units = self.config.expert_units
        return [self._cnn(units) for _ in range(num_experts)]

    def _cnn(self, units: Sequence[int]) -> keras.layers.Layer:
        parts: list[keras.layers.Layer] = []
        for filters, side in PRESETS[self.config.preset].convolutions:
            parts += [
                keras.layers.Conv2D(filters, side, activation="relu"),
                keras.layers.MaxPooling2D(),
            ]
        parts.append(keras.layers.Flatten())
        return keras.Sequential([*parts, *self._dense_layers(units)])
