"""The finished trainings that a report is made of."""

from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from recsys.baselines.config import is_baseline
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.errors import RunError
from recsys.errors.reading import naming
from recsys.files.json_files import JsonMapping
from recsys.measuring.curves import percent_until_binary
from recsys.measuring.sample import Sample
from recsys.measuring.task_scores import task_scores
from recsys.models.multi_task_model import MultiTaskModel
from recsys.reporting.baselines import baseline_runs
from recsys.runs.run import Run
from recsys.tuning.selection import is_sparse_enough
from recsys.tuning.sweep import Sweep


@dataclass(frozen=True)
class Trained:
    """One finished training.

    Attributes:
        model: What it is called in tables: in a comparison the name of the
            model, otherwise that of the gate, or "shared-bottom", or of runs
            that differ in more than their seed that of their folder.
        searched: Whether it is a trial of a sweep.
        run: Its run folder.
        config: What it was trained with.
        metrics: The content of `metrics.json`, by split.
        hyperparameters: What was drawn for it, where it is a trial.
        counts: Whether it is as sparse as a trial that is to be chosen from
            must be.
    """

    model: str
    searched: bool
    run: Run
    config: ResolvedConfig
    metrics: JsonMapping
    hyperparameters: JsonMapping = field(default_factory=dict)
    counts: bool = True

    @property
    def setting(self) -> str:
        """Settings shared by the trainings of one table."""
        weights = ", ".join(
            f"{task} {weight:g}"
            for task, weight in self.config.task_weights.items()
        )
        # Losses of standardised targets are on a scale of their own.
        scale = ", standardised" if self.config.standardize_targets else ""
        return (
            f"{Path(self.config.data).name}, {self.config.routed_experts} "
            f"experts, weights: {weights}{scale}"
        )

    @property
    def validation_loss(self) -> float:
        return float(self.metrics["validation"]["loss"])

    @property
    def test_loss(self) -> float:
        return float(self.metrics["test"]["loss"])

    @property
    def has_model(self) -> bool:
        """True if the run folder has the model and rows to draw it on."""
        return self.run.model.is_file() and self.run.sample.is_file()

    @property
    def has_predictions(self) -> bool:
        """True if, besides, the tasks of the model were trained."""
        return self.has_model and self.loaded.has_trained_tasks

    @cached_property
    def loaded(self) -> MultiTaskModel:
        """The trained model."""
        model = self.run.load_model()
        self.run.check_weighs(self.config, model)
        return model

    @cached_property
    def sample(self) -> Sample:
        """Rows of the validation split, as the model takes them."""
        return Sample.read(self.run.sample, self.loaded)

    def scores(self) -> dict[str, float]:
        """Returns the figures of the run in tables, apart from its test loss.

        Experts per example, percent of training until gates were binary, scores
        of the tasks.
        """
        test = self.metrics["test"]
        if not self.config.trains_tasks:  # They are of the constants.
            test = {**test, "tasks": {}}
        values = {
            "n/s": test["experts_per_example"],
            **percent_until_binary(test),
            **task_scores(test),
        }
        return {name: v for name, v in values.items() if v is not None}


def read_trained(folders: Sequence[str | Path]) -> list[Trained]:
    """Returns every finished training below some folders.

    Args:
        folders: Folders of sweeps, of comparisons, or of runs.

    Raises:
        RunError: There is no such folder, or nothing finished in it.
    """
    trained = []
    for folder in map(Path, folders):
        of_folder = list(_sweep(folder)) or list(_runs(folder))
        if not of_folder and not baseline_runs(folder):
            raise RunError(
                f"{folder}: expected a folder of finished runs, or of a "
                "sweep with finished trials. Received: "
                + ("none in it" if folder.is_dir() else "no folder there")
            )
        trained += of_folder
    return _told_apart(trained)


def by_setting(
    trained: Sequence[Trained],
) -> dict[str, dict[str, list[Trained]]]:
    """Groups trainings by setting and, within it, by model."""
    grouped: dict[str, dict[str, list[Trained]]] = {}
    for run in trained:
        models = grouped.setdefault(run.setting, {})
        models.setdefault(run.model, []).append(run)
    return grouped


def best_runs(trained: Sequence[Trained]) -> dict[str, list[Trained]]:
    """Returns, by setting, the best run of each model by validation loss."""
    return {
        setting: [
            min(runs, key=lambda run: run.validation_loss)
            for runs in models.values()
        ]
        for setting, models in by_setting(trained).items()
    }


def titled_best_runs(
    trained: Sequence[Trained],
) -> Iterator[tuple[str, Trained]]:
    """Yields the best run of each model in each setting, with a title."""
    for setting, runs in best_runs(trained).items():
        for run in runs:
            yield f"{run.model}: {setting}", run


def count_failed(folders: Sequence[str | Path]) -> int:
    """Returns how many trials of sweeps have failed."""
    return sum(
        record["status"] == "failed"
        for folder in folders
        for record in Sweep(Path(folder)).log.read()
    )


def _told_apart(trained: Sequence[Trained]) -> list[Trained]:
    """Runs that differ in more than their seed, by the names of their folders.

    In tables, trainings of one name are repetitions of one another.
    """
    by_name: dict[tuple[str, str], list[Trained]] = {}
    for run in trained:
        if not run.searched:
            by_name.setdefault((run.setting, run.model), []).append(run)
    mixed = {
        name
        for name, runs in by_name.items()
        if any(_but_seed(run) != _but_seed(runs[0]) for run in runs)
    }
    return [
        replace(run, model=run.run.folder.name)
        if not run.searched and (run.setting, run.model) in mixed
        else run
        for run in trained
    ]


def _but_seed(run: Trained) -> ResolvedConfig:
    return replace(run.config, seed=0, out="")


def _sweep(folder: Path) -> Iterator[Trained]:
    sweep = Sweep(folder)
    for record in sweep.log.read():
        if record["status"] == "completed":
            recorded = TrainConfig.from_mapping(record["config"])
            config = ResolvedConfig.of(recorded)
            metrics = {name: record[name] for name in ("validation", "test")}
            run = Run(sweep.runs / record["trial"])
            drawn = record["hyperparameters"]
            with naming(sweep.log.file):
                counts = is_sparse_enough(config, record["validation"])
            yield Trained(
                config.gate, True, run, config, metrics, drawn, counts
            )


def _kind(config: ResolvedConfig) -> str:
    """What a run without another name is called: a bottom has no gate."""
    bottom = "shared-bottom"
    return bottom if config.architecture == bottom else config.gate


def _runs(folder: Path) -> Iterator[Trained]:
    for file in sorted(folder.rglob("metrics.json")):
        run = Run(file.parent)
        if is_baseline(run.config):
            continue
        if run.config.is_file() and run.is_finished:
            config = run.read_config()
            named = run.folder.name == f"seed-{config.seed}"
            model = run.folder.parent.name if named else _kind(config)
            yield Trained(model, False, run, config, run.read_metrics())
