import math
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from recsys.config.train_config import TrainConfig
from recsys.data import Schema
from recsys.data.load import load_schema
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.measuring.curves import percent_until_binary
from recsys.measuring.curves import read_history
from recsys.measuring.measure import trained_loss
from recsys.measuring.search_distance import largest_distance
from recsys.measuring.task_scores import task_scores
from recsys.runs.run import Run
from recsys.training.resolve_config import check_config
from recsys.training.resolve_config import weights_of_tasks


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
        result = {
            "setting": self.setting,
            "model": self.model,
            "seed": self.config.seed,
        }
        if not run.read_config().trains_tasks:  # Losses are of the constants.
            scores = task_scores({**test, "tasks": {}})
            return {**result, "loss": math.nan, **scores}
        history = read_history(run.history)
        result |= {
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


@dataclass(frozen=True)
class PlannedSingleTasks:
    """A model for each task, trained on that task alone, as one of all.

    Attributes:
        setting: Name of its setting.
        model: Name of its model.
        weights: By task, the weight of its loss in the loss of all.
        runs: By task, its training.
    """

    setting: str
    model: str
    weights: dict[str, float]
    runs: dict[str, PlannedRun]

    @classmethod
    def of(cls, setting: str, model: str, fields: JsonMapping) -> Self:
        """Plans the trainings.

        Args:
            setting: Name of the setting.
            model: Name of the model.
            fields: `single_tasks`, and fields of `TrainConfig`; its weights of
                tasks are those in the loss of all.

        Raises:
            DataError: The data are missing or wrong.
            ValueError, TypeError: A field is wrong.
        """
        shared = {
            name: fields[name] for name in fields if name != "single_tasks"
        }
        whole = TrainConfig.from_mapping(shared)
        schema = load_schema(whole.data)
        runs = {}
        for number, task in enumerate(schema.tasks, start=1):
            weights = {name: float(name == task) for name in schema.tasks}
            # A task may have a name that no folder can have.
            out = str(Path(whole.out) / f"task-{number}")
            of_task = {**shared, "task_weights": weights, "out": out}
            runs[task] = PlannedRun.of(setting, model, of_task)
        weights = weights_of_tasks(whole.task_weights, schema)
        return cls(setting, model, weights, runs)

    @property
    def configs(self) -> list[TrainConfig]:
        """What is trained for it, one after the other."""
        return [run.config for run in self.runs.values()]

    @property
    def data(self) -> str:
        """The data folder."""
        return self.configs[0].data

    def check(self, schema: Schema) -> None:
        """Checks that all can be trained on data with a schema.

        Args:
            schema: The schema.

        Raises:
            ValueError: They cannot.
        """
        for run in self.runs.values():
            run.check(schema)

    def result(self) -> JsonObject | None:
        """The entry of the table, or `None` before all are trained."""
        results = {task: run.result() for task, run in self.runs.items()}
        done = {task: result for task, result in results.items() if result}
        if len(done) < len(results):
            return None
        tasks = {
            task: Run(run.config.out).read_metrics()["test"]["tasks"][task]
            for task, run in self.runs.items()
        }
        losses = {task: trained_loss(tasks[task]) for task in tasks}
        return {
            "setting": self.setting,
            "model": self.model,
            "seed": self.configs[0].seed,
            "loss": sum(
                self.weights[task] * loss
                for task, loss in losses.items()
                if loss is not None
            ),
            **task_scores({"tasks": tasks}),
            **{
                name: sum(result[name] for result in done.values())
                for name in ("seconds", "seconds per epoch", "epochs")
            },
        }
