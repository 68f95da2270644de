from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from recsys.config.resolved_config import LAST
from recsys.config.resolved_config import PARTS
from recsys.config.resolved_config import RETRIEVAL
from recsys.config.resolved_config import TASKS
from recsys.config.resolved_config import ResolvedConfig
from recsys.files.json_files import JsonObject
from recsys.metrics import RETRIEVAL_METRICS
from recsys.tasks import Task

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
        cls, config: ResolvedConfig, tasks: Mapping[str, Task]
    ) -> "EpochChoice":
        """Returns what a configuration chooses by.

        Args:
            config: The configuration, resolved.
            tasks: The tasks with their kind.

        Raises:
            ValueError: `config.select` is no metric of the validation.

        Example:
        >>> from recsys.config.train_config import TrainConfig
        >>> config = TrainConfig(
        ...     data="synthetic", out="out", retrieval=True, select="retrieval"
        ... )
        >>> EpochChoice.of(ResolvedConfig.of(config), {})
        EpochChoice(column='val_retrieval_ndcg@10', higher=True)
        """
        select, k = config.select, config.metrics_k
        choices = {TASKS: cls(), LAST: cls("epoch", higher=True)}
        if config.trains_towers:
            by_name = {
                f"{of}{name}@{k}": cls(
                    f"{VALIDATION_RETRIEVAL}{of}{name}@{k}", higher=True
                )
                for of in ("", "user_")
                for name in RETRIEVAL_METRICS
            }
            choices |= {RETRIEVAL: by_name[f"ndcg@{k}"], **by_name}
            choices[PARTS] = cls()  # Towers, after them, by the former.
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
