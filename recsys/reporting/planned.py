"""What the models of a comparison are, by the field that says it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import fields as fields_of
from typing import Self

import pandas as pd

from recsys.baselines.config import BaselineConfig
from recsys.config.config_file import check_fields
from recsys.data import Schema
from recsys.errors.shown import shown
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.measuring.task_scores import task_scores
from recsys.reporting.planned_run import PlannedRun
from recsys.reporting.planned_run import PlannedSingleTasks
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
        options = {name: fields[name] for name in fields if name in known}
        return cls(
            setting, model, BaselineConfig(**options, model=fields["baseline"])
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


Planned = PlannedRun | PlannedSingleTasks | PlannedBaseline

_BASELINE = "baseline"
_SINGLE_TASKS = "single_tasks"


def checked_model(fields: JsonObject) -> JsonObject:
    """Returns the fields of a model of a comparison.

    Args:
        fields: As a file has them.

    Raises:
        ValueError: A field is unknown or wrong.
    """
    if _BASELINE in fields:
        options = {name: fields[name] for name in fields if name != _BASELINE}
        try:
            BaselineConfig(
                **{
                    "data": ".",
                    "out": ".",
                    **options,
                    "model": fields[_BASELINE],
                }
            )
        except TypeError as error:  # Pydantic takes it for an error of ours.
            raise ValueError(str(error)) from None
        return fields
    single = fields.get(_SINGLE_TASKS, False)
    if not isinstance(single, bool):
        raise ValueError(
            f"`{_SINGLE_TASKS}` must be true or false. Received: "
            f"{shown(single)}"
        )
    check_fields({n: fields[n] for n in fields if n != _SINGLE_TASKS})
    return fields


def planned(setting: str, model: str, fields: JsonMapping) -> Planned:
    """Plans a model of a comparison, with one seed.

    Args:
        setting: Name of its setting.
        model: Name of its model.
        fields: All its fields, with the seed and the folder.

    Raises:
        DataError: The data of single tasks are missing or wrong.
        ValueError: They do not fit together; the message names setting and
            model.
    """
    with _naming(setting, model):
        if _BASELINE in fields:
            return PlannedBaseline.of(setting, model, fields)
        if fields.get(_SINGLE_TASKS):
            return PlannedSingleTasks.of(setting, model, fields)
        options = {n: fields[n] for n in fields if n != _SINGLE_TASKS}
        return PlannedRun.of(setting, model, options)


def check_planned(run: Planned, schema: Schema) -> None:
    """Checks that a model can be trained on data with a schema.

    Args:
        run: The plan.
        schema: The schema.

    Raises:
        ValueError: It cannot; the message names setting and model.
    """
    with _naming(run.setting, run.model):
        run.check(schema)


@contextmanager
def _naming(setting: str, model: str) -> Iterator[None]:
    """Adds the setting and the model to what goes wrong."""
    try:
        yield
    except (ValueError, TypeError) as error:
        where = setting and f"setting {setting!r}, "
        raise ValueError(f"{where}model {model!r}: {error}") from error
