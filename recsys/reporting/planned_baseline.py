from dataclasses import dataclass
from dataclasses import fields as fields_of
from typing import Self

import pandas as pd

from recsys.baselines.config import BaselineConfig
from recsys.data import Schema
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.measuring.task_scores import task_scores
from recsys.runs.run import Run


@dataclass(frozen=True)
class PlannedBaseline:
    """One baseline of a comparison.

    Attributes:
        setting: Name of its setting.
        model: Name of its model.
        config: What it is fitted with.
    """

    setting: str
    model: str
    config: BaselineConfig

    @classmethod
    def of(cls, setting: str, model: str, fields: JsonMapping) -> Self:
        """Plans a baseline.

        Args:
            setting: Name of its setting.
            model: Name of its model.
            fields: `baseline`, its name, and fields of `BaselineConfig`. Those
                of `TrainConfig` that it does not have say nothing here.

        Raises:
            ValueError, TypeError: A field is wrong.
        """
        known = {field.name for field in fields_of(BaselineConfig)}
        own = {name: fields[name] for name in fields if name in known}
        return cls(
            setting, model, BaselineConfig(**own, model=fields["baseline"])
        )

    @property
    def configs(self) -> list[BaselineConfig]:
        """What is fitted for it."""
        return [self.config]

    @property
    def data(self) -> str:
        """The data folder."""
        return self.config.data

    def check(self, schema: Schema) -> None:
        """A baseline says what it needs when it is fitted."""

    def result(self) -> JsonObject | None:
        """The entry of the table, or `None` before it is fitted."""
        run = Run(self.config.out)
        if not run.is_finished:
            return None
        test = run.read_metrics()["test"]
        trials = pd.read_csv(run.folder / "trials.csv")
        return {
            "setting": self.setting,
            "model": self.model,
            "seed": self.config.seed,
            "loss": test["loss"],
            **task_scores(test),
            "seconds": trials["seconds"].sum(),
        }
