from dataclasses import dataclass
from typing import Self

from recsys.config.train_config import TrainConfig
from recsys.data import Schema
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.measuring.curves import percent_until_binary
from recsys.measuring.curves import read_history
from recsys.measuring.search_distance import largest_distance
from recsys.measuring.task_scores import task_scores
from recsys.runs.run import Run
from recsys.training.resolve_config import check_config


@dataclass(frozen=True)
class PlannedRun:
    """One training of a comparison.

    Attributes:
        setting: Name of its setting.
        model: Name of its model.
        config: What it is trained with.
    """

    setting: str
    model: str
    config: TrainConfig

    @classmethod
    def of(cls, setting: str, model: str, fields: JsonMapping) -> Self:
        """Plans a run of fields of `TrainConfig`.

        Args:
            setting: Name of its setting.
            model: Name of its model.
            fields: The fields, with the seed and the folder.

        Raises:
            ValueError, TypeError: They do not fit together.
        """
        return cls(setting, model, TrainConfig.from_mapping(fields))

    @property
    def configs(self) -> list[TrainConfig]:
        """What is trained for it."""
        return [self.config]

    @property
    def data(self) -> str:
        """The data folder."""
        return self.config.data

    def check(self, schema: Schema) -> None:
        """Checks that it can be trained on data with a schema.

        Args:
            schema: The schema.

        Raises:
            ValueError: It cannot.
        """
        check_config(self.config, schema)

    def result(self) -> JsonObject | None:
        """The entry of the table, or `None` before training."""
        run = Run(self.config.out)
        if not run.is_finished:
            return None
        metrics = run.read_metrics()
        test = metrics["test"]
        history = read_history(run.history)
        result = {
            "setting": self.setting,
            "model": self.model,
            "seed": self.config.seed,
            "loss": test["loss"],
            **task_scores(test),
            "experts per example": test["experts_per_example"],
            **percent_until_binary(test),
            "seconds": history["seconds"].sum(),
            "seconds per epoch": history["seconds"].median(),
            "epochs": len(history),
            "best epoch": metrics["selected"]["epoch"]
            if metrics.get("selected")
            else int(history["epoch"][history["val_loss"].argmin()]),
        }
        distance = metrics.get("permutation_distance")
        if distance is not None:
            result["permutation distance"] = largest_distance(distance)
        return result
