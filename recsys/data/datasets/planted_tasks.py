from dataclasses import dataclass

import numpy as np
import pandas as pd

from recsys.data.dataset import Dataset
from recsys.data.schema import Schema
from recsys.data.split_dataset import SPLITS
from recsys.errors import DataError

EXPERTS_PER_GROUP = 4
UNITS = 4  # ReLU units of an expert.
TASKS_PER_GROUP = 16
SHARES = (5 / 7, 1 / 7, 1 / 7)  # 100,000, 20,000 and 20,000 of 140,000 rows.


@dataclass(frozen=True)
class PlantedTasks:
    """Regression tasks that are known mixtures of known experts.

    Axis letters: B rows, T tasks, E experts, D inputs.

    Attributes:
        inputs: Float32 `(B, D)`.
        labels: Float32 `(B, T)`.
        kernels: Float32 `(E, D, 4)`: expert e is `Σ_u relu(x kernels[e])_u`.
        weights: Float32 `(T, E)`: how much of each expert a task is, rows
            that sum to 1; 0 for the experts of the other groups.
        groups: Integers `(T,)`, the group of each task.
    """

    inputs: np.ndarray
    labels: np.ndarray
    kernels: np.ndarray
    weights: np.ndarray
    groups: np.ndarray

    def split(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Returns the inputs and the labels of one split.

        Five in seven rows are for training, one for validation, one for test.

        Args:
            name: `"train"`, `"validation"` or `"test"`.

        Raises:
            DataError: There is no such split.
        """
        if name not in SPLITS:
            raise DataError.at(
                "planted tasks", f"one of the splits {SPLITS}", repr(name)
            )
        bounds = np.cumsum((0, *SHARES)) * len(self.inputs)
        start, stop = bounds[SPLITS.index(name) :][:2].round().astype(int)
        return self.inputs[start:stop], self.labels[start:stop]

    def to_dataset(self) -> Dataset:
        """Returns the same as a data set, which may be written to a folder.

        Its features are the numbers x0, x1, ..., its tasks task0, task1, ...
        """
        features = [f"x{number}" for number in range(self.inputs.shape[1])]
        tasks = [f"task{number}" for number in range(self.labels.shape[1])]
        schema = Schema(
            "planted-tasks",
            dict.fromkeys(features, "number"),
            dict.fromkeys(tasks, "regression"),
        )
        splits = {
            name: pd.DataFrame(
                np.concatenate(self.split(name), axis=1, dtype="float64"),
                columns=[*schema.columns],
            )
            for name in SPLITS
        }
        return Dataset(schema, splits)


def planted_tasks(
    num_tasks: int = 128,
    num_rows: int = 140_000,
    num_features: int = 10,
    correlation: float = 0.8,
    seed: int = 0,
) -> PlantedTasks:
    """Generates regression tasks of which some are related and others not.

    Groups of 16 tasks have 4 experts each, f_i(x) = Σ_u relu(w_iu·x) with 4
    units u. Task t of a group is y_t(x) = Σ_i softmax(α_t)_i f_i(x). The rows
    x and all w are standard normal; for each expert, the α_ti of the group's
    tasks are normal with mean 0, variance 1 and the correlation given.

    Fewer tasks are the first of more tasks with the same seed, number of rows
    and of features.

    The paper speaks of four groups of 16 tasks, and of 128 tasks that share
    `T / 4` experts. Both hold for 4 experts to every 16 tasks, so 128 tasks
    are taken to be eight such groups, not four.

    Args:
        num_tasks: A multiple of 16; published: 16, 32, 64 and 128.
        num_rows: At least 7. Five in seven are for training.
        num_features: At least 1.
        correlation: Number in [0, 1], of the weights of two tasks of a group.
        seed: Seed of everything that is drawn, not negative.

    Returns:
        The data and what was planted.

    Raises:
        ValueError: An argument is outside its bounds.

    Example:
    >>> planted = planted_tasks(num_tasks=32, num_rows=70)
    >>> planted.labels.shape, planted.weights.shape
    ((70, 32), (32, 8))
    >>> planted.to_dataset().split("train").shape
    (50, 42)

    References:
        Hazimeh, Zhao, Chowdhery, Sathiamoorthy, Chen, Mazumder, Hong, Chi.
        DSelect-k: Differentiable Selection in the Mixture of Experts with
        Applications to Multi-Task Learning. NeurIPS 2021, appendix C.1.
    """
    _check(num_tasks, num_rows, num_features, correlation, seed)
    num_groups = num_tasks // TASKS_PER_GROUP
    inputs = np.random.default_rng((seed, 0)).standard_normal(
        (num_rows, num_features), "float32"
    )
    kernels, labels = [], []
    weights = np.zeros(
        (num_groups, TASKS_PER_GROUP, num_groups, EXPERTS_PER_GROUP), "float32"
    )
    for group in range(num_groups):
        generator = np.random.default_rng((seed, 1, group))
        kernel = generator.standard_normal(
            (EXPERTS_PER_GROUP, num_features, UNITS), "float32"
        )
        weights[group, :, group] = _softmax(_correlated(correlation, generator))
        experts = np.maximum(inputs @ kernel, 0).sum(axis=-1)  # (E, B)
        labels.append(experts.T @ weights[group, :, group].T)
        kernels.append(kernel)
    return PlantedTasks(
        inputs,
        np.concatenate(labels, axis=1),
        np.concatenate(kernels),
        weights.reshape(num_tasks, -1),
        np.repeat(np.arange(num_groups), TASKS_PER_GROUP),
    )


def _correlated(
    correlation: float, generator: np.random.Generator
) -> np.ndarray:
    """Draws α of one group, `(16, 4)`."""
    common = generator.standard_normal((1, EXPERTS_PER_GROUP))
    individual = generator.standard_normal((TASKS_PER_GROUP, EXPERTS_PER_GROUP))
    return np.sqrt(correlation) * common + np.sqrt(1 - correlation) * individual


def _softmax(logits: np.ndarray) -> np.ndarray:
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def _check(
    num_tasks: int,
    num_rows: int,
    num_features: int,
    correlation: float,
    seed: int,
) -> None:
    if num_tasks < 1 or num_tasks % TASKS_PER_GROUP:
        raise ValueError(
            f"`num_tasks` must be a multiple of {TASKS_PER_GROUP}. "
            f"Received: num_tasks={num_tasks}"
        )
    if num_rows < 7:
        raise ValueError(
            f"`num_rows` must be at least 7. Received: num_rows={num_rows}"
        )
    if num_features < 1:
        raise ValueError(
            "`num_features` must be at least 1. "
            f"Received: num_features={num_features}"
        )
    if not 0 <= correlation <= 1:
        raise ValueError(
            "`correlation` must be between 0 and 1. "
            f"Received: correlation={correlation}"
        )
    if seed < 0:
        raise ValueError(f"`seed` must not be negative. Received: seed={seed}")
