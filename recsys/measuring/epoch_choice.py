from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from recsys.config.train_config import TrainConfig
from recsys.files.json_files import JsonObject
from recsys.metrics import RETRIEVAL_METRICS
from recsys.tasks import Task

# What `--select` calls the validation loss, and what retrieval is chosen by.
TASKS, RETRIEVAL = "tasks", "retrieval"
# What a history calls the metrics of retrieval on the validation split.
VALIDATION_RETRIEVAL = "val_retrieval_"


@dataclass(frozen=True)
class EpochChoice:
    """Criterion for the best epoch.

    Attributes:
        column: The column of the history.
        higher: Whether more of it is better.
    """

    column: str = "val_loss"
    higher: bool = False

    @classmethod
    def of(
        cls, config: TrainConfig, tasks: Mapping[str, Task]
    ) -> "EpochChoice":
        """Returns what a configuration chooses by.

        Args:
            config: The configuration.
            tasks: The tasks with their kind.

        Raises:
            ValueError: `config.select` is no metric of the validation.

        Example:
        >>> config = TrainConfig(data="synthetic", out="out", retrieval=True)
        >>> EpochChoice.of(config, {})
        EpochChoice(column='val_retrieval_ndcg@10', higher=True)
        """
        select, k = config.select or default_choice(config), config.metrics_k
        choices = {TASKS: cls()}
        if _trains_towers(config):
            by_name = {
                f"{of}{name}@{k}": cls(
                    f"{VALIDATION_RETRIEVAL}{of}{name}@{k}", higher=True
                )
                for of in ("", "user_")
                for name in RETRIEVAL_METRICS
            }
            choices |= {RETRIEVAL: by_name[f"ndcg@{k}"], **by_name}
        for task, kind in tasks.items():
            choices[f"{task}_loss"] = cls(f"val_{task}_loss")
            for metric in kind.logged:
                column = f"{task}_{metric.name_at(k)}"
                choices[column] = cls(f"val_{column}", metric.higher_is_better)
        if select not in choices:
            raise ValueError(
                f"`select` must be one of {[*choices]} for this run. "
                f"Received: select={select!r}"
            )
        return choices[select]

    def cost(self, value: float) -> float:
        """Returns what is lowest in the best epoch.

        Args:
            value: A value of the column.
        """
        return -value if self.higher else value

    def best_row(self, history: pd.DataFrame) -> int:
        """Returns the position of the epoch that is kept; the first of ties.

        Args:
            history: A row for each epoch.
        """
        values = history[self.column]
        return int(values.argmax() if self.higher else values.argmin())

    def chosen(self, history: pd.DataFrame) -> JsonObject:
        """Returns the metric and the epoch that is kept, ready for JSON.

        Args:
            history: A row for each epoch.
        """
        row = history.iloc[self.best_row(history)]
        return {
            "by": self.column,
            "epoch": int(row["epoch"]),
            "value": float(row[self.column]),
        }


def default_choice(config: TrainConfig) -> str:
    """Returns what an epoch is chosen by where nothing is given.

    A sequence tower has an epoch of its own: it is trained before the tasks.

    Args:
        config: The configuration.
    """
    return RETRIEVAL if _trains_towers(config) else TASKS


def _trains_towers(config: TrainConfig) -> bool:
    """Returns whether towers are trained beside the tasks."""
    return config.retrieval and config.tower is None
