import math
import os
from collections.abc import Mapping
from dataclasses import InitVar
from dataclasses import asdict
from dataclasses import dataclass
from dataclasses import field
from dataclasses import fields
from dataclasses import replace
from types import UnionType
from typing import Any
from typing import get_args
from typing import get_origin
from typing import get_type_hints

from recsys.nearest import did_you_mean
from recsys.old_defaults import with_old_defaults
from recsys.old_names import with_current_names
from recsys.optimizers import OPTIMIZERS
from recsys.presets import PRESETS
from recsys.presets import TABLES
from recsys.presets import Sizes
from recsys.shown import shown

# No size or number of epochs is larger, but larger ones overflow somewhere.
_LARGEST = 2**32

_EXPECTED = {
    str: "a string",
    str | None: "a string",
    int: "an integer",
    int | None: "an integer",
    float: "a number",
    float | None: "a number",
    bool | None: "true or false",
    list[int] | None: "a list of integers",
    dict[str, float]: "numbers by name",
    dict[str, Any]: "values by name",
}


@dataclass(frozen=True)
class TrainConfig:
    """Everything that one training run depends on.

    The defaults are the ranker that the COMET paper trains on MovieLens-1M,
    or the published model for images of the same name.

    Args:
        data: Data folder, or "synthetic" for the generated data set.
        out: Run folder; new or empty, unless a run is resumed.
        preset: The published sizes that hold where others are not given:
            movielens for tables; celeba, cifar10, digits,
            multi-fashion-mnist, multi-mnist or svhn for images, the one named
            like the data set unless given.
        architecture: What lies between the inputs and the tasks' heads: mmoe
            (a gate for each task), moe (one gate for all), cgc or ple (experts
            of each task's own beside the shared ones; ple for tables), or
            shared-bottom (an MLP, or one CNN; no experts and no gate).
        gate: Name of the gate, such as comet or top-k. A + after it adds
            permutation local search.
        num_experts: Number of experts that the tasks share. Unless given, as
            the preset has; 16 for movielens.
        task_experts: Number of each task's own experts, for cgc and ple.
        num_levels: Number of levels of experts, for ple.
        k: Experts per example and task, for the gates that bound them. Unless
            given, as the preset has; 2 for movielens.
        gate_options: Further hyperparameters of the gate, by name.
        search_epochs: Epochs of the permutation local search.
        search_entropy_weight: Weight of the permutation's entropy in the loss
            while it is searched for.
        search_normalized: What of the matrix that the search multiplies the
            gate's weights by sums to 1 at every step: rows, as in the COMET
            authors' code, or columns, as in the paper's formula.
        execution: How experts are run: auto, dense or sparse.
        embedding_dim: Width of the embedding of each id feature.
        expert_units: Width of each dense layer of an expert. Unless given, as
            the preset has; 256 for movielens.
        expert_dropout: Share of an expert's outputs dropped while training.
            Unless given, as the preset has; 0.5 for movielens.
        head_units: Width of each hidden layer of a task's head. Unless given,
            as the preset has; 256 for movielens.
        hash_feature: Id feature that a hash gate routes by; the first one
            unless given.
        hash_tables: Whether the hash gates of all tasks have one table, so that
            an id has the same expert in each (shared, as published), or a
            table each (own).
        unknown_rate: Share of the ids that training replaces by the
            out-of-vocabulary id, so that its embedding is learned.
        task_weights: Weight of each task's loss; equal, with sum 1, unless
            given.
        standardize_targets: Whether regression tasks are trained in standard
            deviations from the mean of their labels, so that none outweighs
            the others by its unit. Predictions and metrics are in the label's
            unit either way. Unless given, all data are standardised but the
            generated and the papers' ratings: synthetic, movielens, books and
            jester.
        train_rows: Rows of the training split to draw and train on, always
            the same ones; all unless given.
        shuffle_buffer: Rows that are kept, reading the split in order, to draw
            the next one from; all, in a new order each epoch, unless given.
        optimizer: Name of the optimizer: adam or adagrad.
        learning_rate: Learning rate of the optimizer.
        batch_size: Examples in a training step.
        epochs: Most passes over the training split.
        patience: Epochs without a better validation loss before training
            stops.
        seed: Seed of the initial weights, the shuffling and the dropout.
        backend: Keras backend: tensorflow, jax or torch; the active one
            unless given.

    Raises:
        TypeError: A field has a value of another type.
        ValueError: A field is outside its bounds.

    Example:
    >>> TrainConfig(data="synthetic", out="runs/first", k=0)
    Traceback (most recent call last):
    ...
    ValueError: `k` must be at least 1. Received: k=0
    """

    data: str
    out: str
    preset: str | None = field(
        default=None, metadata={"choices": tuple(PRESETS)}
    )
    architecture: str = field(
        default="mmoe",
        metadata={"choices": ("mmoe", "moe", "cgc", "ple", "shared-bottom")},
    )
    gate: str = "comet"
    num_experts: int | None = field(default=None, metadata={"minimum": 2})
    task_experts: int = field(default=4, metadata={"minimum": 1})
    num_levels: int = field(default=2, metadata={"minimum": 1})
    k: int | None = field(default=None, metadata={"minimum": 1})
    gate_options: dict[str, Any] = field(default_factory=dict)
    search_epochs: int = field(default=5, metadata={"minimum": 1})
    search_entropy_weight: float = field(default=1e-4, metadata={"minimum": 0})
    search_normalized: str = field(
        default="rows", metadata={"choices": ("rows", "columns")}
    )
    execution: str = field(
        default="auto", metadata={"choices": ("auto", "dense", "sparse")}
    )
    embedding_dim: int = field(default=128, metadata={"minimum": 1})
    expert_units: list[int] | None = field(
        default=None, metadata={"minimum": 1}
    )
    expert_dropout: float | None = field(
        default=None, metadata={"minimum": 0, "below": 1}
    )
    head_units: list[int] | None = field(default=None, metadata={"minimum": 1})
    hash_feature: str | None = None
    hash_tables: str = field(
        default="shared", metadata={"choices": ("shared", "own")}
    )
    unknown_rate: float = field(
        default=0.01, metadata={"minimum": 0, "below": 1}
    )
    task_weights: dict[str, float] = field(
        default_factory=dict, metadata={"minimum": 0}
    )
    standardize_targets: bool | None = None
    train_rows: int | None = field(default=None, metadata={"minimum": 1})
    shuffle_buffer: int | None = field(default=None, metadata={"minimum": 1})
    optimizer: str = field(
        default="adam", metadata={"choices": tuple(OPTIMIZERS)}
    )
    learning_rate: float = field(default=3e-4, metadata={"above": 0})
    batch_size: int = field(default=512, metadata={"minimum": 1})
    epochs: int = field(default=10, metadata={"minimum": 1})
    patience: int = field(default=3, metadata={"minimum": 1})
    seed: int = field(default=0, metadata={"minimum": 0, "below": 2**32})
    backend: str | None = field(
        default=None, metadata={"choices": ("tensorflow", "jax", "torch")}
    )
    # The old name of `architecture`.
    structure: InitVar[str | None] = None

    def __post_init__(self, structure: str | None) -> None:
        self._take_old_names(structure)
        hints = get_type_hints(TrainConfig)
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, os.PathLike):
                value = os.fspath(value)
            _check_type(item.name, value, hints[item.name])
            for part in _parts(value):
                _check_bounds(item.name, part, **item.metadata)
            object.__setattr__(self, item.name, value)

    def _take_old_names(self, structure: str | None) -> None:
        named = {"preset": self.preset, "architecture": self.architecture}
        default = {"architecture": TrainConfig.architecture}
        if structure is not None:
            if named["architecture"] == default["architecture"]:
                del named["architecture"]
            named["structure"] = structure
        for name, value in (default | with_current_names(named)).items():
            object.__setattr__(self, name, value)

    @property
    def sizes(self) -> Sizes:
        """The sizes that are given, and the preset's where none is."""
        published = PRESETS[self.preset or TABLES]
        given = {
            item.name: value
            for item in fields(published)
            if (value := getattr(self, item.name, None)) is not None
        }
        return replace(published, **given)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> "TrainConfig":
        """Builds a configuration from its fields, such as a JSON object's.

        Args:
            values: The fields by name. The "versions" that `config.json` of a
                run holds as well are left out; what such a file does not say
                is as it was when it was written.

        Raises:
            TypeError: A field has a value of another type.
            ValueError: There is no such field, one is missing, or a value is
                outside its bounds.
        """
        given = with_current_names(values)
        if given.pop("versions", None) is not None:
            given = with_old_defaults(given)
        known = [item.name for item in fields(cls)]
        for name in given:
            if name not in known:
                raise ValueError(
                    "The fields of a training configuration must be among "
                    f"{', '.join(known)}{did_you_mean(name, known)}. "
                    f"Received: {name!r}"
                )
        for name in ("data", "out"):
            if name not in given:
                raise ValueError(
                    f"`{name}` must be given. Received: {sorted(given)}"
                )
        return cls(**given)

    def to_mapping(self) -> dict[str, Any]:
        """Returns the fields by name, ready for JSON."""
        return asdict(self)


def _fits(value: Any, hint: Any) -> bool:
    if get_origin(hint) is UnionType:
        return any(_fits(value, part) for part in get_args(hint))
    if get_origin(hint) is list:
        return isinstance(value, list | tuple) and all(
            _fits(item, int) for item in value
        )
    if get_origin(hint) is dict:
        return isinstance(value, Mapping) and all(
            _fits(item, get_args(hint)[1]) for item in value.values()
        )
    if hint is Any:
        return True
    if hint is bool:
        return isinstance(value, bool)
    if hint is float:
        hint = int | float
    return isinstance(value, hint) and not isinstance(value, bool)


def _check_type(name: str, value: Any, hint: Any) -> None:
    if not _fits(value, hint):
        raise TypeError(
            f"`{name}` must be {_EXPECTED[hint]}. "
            f"Received: {name}={shown(value)}"
        )


def _parts(value: Any) -> list[Any]:
    """The numbers of a list or a mapping; else the one value there is."""
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else [value]


def _check_bounds(
    name: str,
    value: Any,
    minimum: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: tuple[str, ...] = (),
) -> None:
    if choices and value not in (None, *choices):
        expected = "one of " + ", ".join(choices)
    elif value is None:
        return
    elif minimum is not None and not value >= minimum:
        expected = f"at least {minimum}"
    elif above is not None and not value > above:
        expected = f"above {above}"
    elif below is not None and not value < below:
        expected = f"below {below}"
    elif isinstance(value, float) and not math.isfinite(value):
        expected = "finite"
    elif isinstance(value, int) and abs(value) > _LARGEST:
        expected = f"at most {_LARGEST:,}"
    else:
        return
    raise ValueError(
        f"`{name}` must be {expected}. Received: {name}={shown(value)}"
    )
