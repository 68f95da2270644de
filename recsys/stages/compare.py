from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import as_completed
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

import pandas as pd

from recsys.atomic import remove_all_unfinished
from recsys.atomic import replacing
from recsys.config import TrainConfig
from recsys.errors import RunError
from recsys.json_files import read_json
from recsys.old_names import with_current_names
from recsys.output_lock import sole_writer
from recsys.run import Run
from recsys.stages.comparison_table import comparison_table
from recsys.task_scores import task_scores
from recsys.training.curves import read_history
from recsys.training.training_processes import TrainingProcesses


@dataclass(frozen=True)
class Comparison:
    """Models that are trained alike, to be compared.

    Args:
        models: By name, the fields of `TrainConfig` that make each model.
        base: The fields that all share.
        settings: By name, fields that all models are trained with in turn,
            such as the tasks' weights. One setting without any, unless given.
        seeds: The seeds that everything is repeated with.
        against: By model, the one that its losses are tested against.

    Raises:
        ValueError: There is no model or seed, or `against` names an unknown
            model.
    """

    models: Mapping[str, Mapping[str, Any]]
    base: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Any]] = field(
        default_factory=lambda: {"": {}}
    )
    seeds: list[int] = field(default_factory=lambda: [0])
    against: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("models", "settings", "seeds"):
            if not getattr(self, name):
                raise ValueError(
                    f"`{name}` of a comparison must not be empty. "
                    f"Received: {name}={getattr(self, name)!r}"
                )
        for name in ("models", "settings"):
            named = {
                key: with_current_names(fields)
                for key, fields in getattr(self, name).items()
            }
            object.__setattr__(self, name, named)
        object.__setattr__(self, "base", with_current_names(self.base))
        for name in [*self.against, *self.against.values()]:
            if name not in self.models:
                raise ValueError(
                    "`against` must name models of the comparison, "
                    f"{list(self.models)}. Received: {name!r}"
                )

    @classmethod
    def read(cls, file: str | Path) -> "Comparison":
        """Reads a comparison from a JSON file with its fields.

        Raises:
            ValueError: A field is unknown or missing.
        """
        content = read_json(Path(file))
        try:
            return cls(**content)
        except TypeError as error:
            raise ValueError(
                f"{file}: the fields of a comparison must be models and, "
                "optionally, base, settings, seeds and against. "
                f"Received: {list(content)}"
            ) from error

    def runs(self, out: Path, **fields: Any) -> list["PlannedRun"]:
        """Returns all runs, each with a folder of its own in `out`."""
        fields = with_current_names(fields)
        return [
            PlannedRun(
                setting,
                model,
                TrainConfig.from_mapping(
                    {
                        **self.base,
                        **self.settings[setting],
                        **self.models[model],
                        **fields,
                        "seed": seed,
                        "out": str(out / setting / model / f"seed-{seed}"),
                    }
                ),
            )
            for seed in self.seeds
            for setting in self.settings
            for model in self.models
        ]


@dataclass(frozen=True)
class PlannedRun:
    """One run of a comparison.

    Attributes:
        setting: Name of its setting.
        model: Name of its model.
        config: What it is trained with.
    """

    setting: str
    model: str
    config: TrainConfig

    def result(self) -> dict[str, Any] | None:
        """What the table needs to know, or `None` while it is not trained."""
        run = Run(self.config.out)
        if not run.is_finished:
            return None
        test = run.read_metrics()["test"]
        history = read_history(run.history)
        return {
            "setting": self.setting,
            "model": self.model,
            "seed": self.config.seed,
            "loss": test["loss"],
            **task_scores(test),
            "experts per example": test["experts_per_example"],
            "seconds per epoch": history["seconds"].median(),
            "epochs": len(history),
            "best epoch": int(history["epoch"][history["val_loss"].argmin()]),
        }


def compare(
    comparison: Comparison | str | Path,
    out: str | Path,
    jobs: int = 1,
    **fields: Any,
) -> pd.DataFrame:
    """Trains and tests several models alike; writes a table of the results.

    Every run is a process of its own with an equal share of the cores, and a
    run folder `OUT/<setting>/<model>/seed-<seed>`. Called again after an
    interruption, it goes on where it was. `OUT/results.csv` has a row per run,
    `OUT/table.md` the means; both are brought up to date after each run.

    Args:
        comparison: A `Comparison`, or a JSON file with its fields.
        out: Folder of the runs and the table.
        jobs: Runs at a time.
        **fields: Fields of `TrainConfig`, such as `data`, that hold for all
            runs, whatever the comparison says.

    Returns:
        A row per run.

    Raises:
        RunError: Some runs failed; the others were finished. Or another
            process is writing to `out`.
        ValueError, TypeError: The comparison is wrong.
    """
    if not isinstance(comparison, Comparison):
        comparison = Comparison.read(comparison)
    if jobs < 1:
        raise ValueError(f"`jobs` must be at least 1. Received: jobs={jobs}")
    out = Path(out).resolve()
    planned = comparison.runs(out, **fields)
    with sole_writer(out):
        remove_all_unfinished(out)
        return _compare(comparison, planned, out, jobs)


def _compare(
    comparison: Comparison, planned: list[PlannedRun], out: Path, jobs: int
) -> pd.DataFrame:
    processes = TrainingProcesses(jobs)
    failures = []
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(processes.train, run.config) for run in planned]
        try:
            for future in as_completed(futures):
                error = future.exception()
                if error is not None and not isinstance(error, RunError):
                    raise error
                failures += [str(error)] if error else []
                results = _write_results(planned, comparison, out)
        except BaseException:
            processes.stop()
            pool.shutdown(cancel_futures=True)
            raise
    if failures:
        raise RunError("; ".join(failures))
    return results


def _write_results(
    planned: list[PlannedRun], comparison: Comparison, out: Path
) -> pd.DataFrame:
    results = pd.DataFrame([r for run in planned if (r := run.result())])
    if not results.empty:
        with replacing(out / "results.csv") as unfinished:
            results.to_csv(unfinished, index=False)
        text = comparison_table(results, comparison.against)
        with replacing(out / "table.md") as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    return results
