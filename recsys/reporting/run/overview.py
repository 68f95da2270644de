"""What a run is and whether it is any good, from its files alone."""

from collections.abc import Iterator
from collections.abc import Mapping
from datetime import UTC
from datetime import datetime
from pathlib import Path

from recsys.baselines.config import is_baseline
from recsys.baselines.config import read_baseline_config
from recsys.config.resolved_config import ResolvedConfig
from recsys.errors import RunError
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.files.json_files import read_json
from recsys.measuring.curves import read_history
from recsys.measuring.task_scores import task_scores
from recsys.reporting.section import Table
from recsys.runs.run import Run

# Relative differences of losses below this are called none.
_LEVEL = 0.001
_COLUMNS = ("validation", "test", "constant")


def overview(run: Run) -> JsonObject:
    """Returns the facts of a finished run, read without Keras.

    Args:
        run: The run, of a training or a baseline.

    Returns:
        "facts", texts by name: data, when, model and so on; "scores", by
        metric the values of "validation", "test" and, in the test split, the
        "constant" prediction, as texts; "verdicts", sentences on what the
        model is better than.

    Raises:
        FileError: A file is broken.
        RunError: There is no finished run in the folder.
    """
    if not run.config.is_file():
        raise RunError(
            f"{run.folder}: expected a run folder. Received: "
            + ("no config.json in it" if run.folder.is_dir() else "no folder")
        )
    if not run.is_finished:
        raise RunError(
            f"{run.folder}: expected a finished run. Received: one without "
            "test metrics; recsys train --out "
            f"{run.folder} --resume continues it"
        )
    metrics = run.read_metrics()
    if not _has_tasks(run):  # What is there of them is of the constants.
        metrics |= {
            split: {"tasks": {}, "retrieval": metrics[split]["retrieval"]}
            for split in ("validation", "test")
        }
    return {
        "facts": {**_what(run), **_when(run), **_files(run)},
        "scores": _scores(metrics),
        "verdicts": [*_verdicts(run, metrics)],
    }


def _has_tasks(run: Run) -> bool:
    """Whether the tasks were trained, or a baseline fitted."""
    return is_baseline(run.config) or run.read_config().trains_tasks


def _what(run: Run) -> dict[str, str]:
    if is_baseline(run.config):
        simple = read_baseline_config(run.config)
        options = ", ".join(f"{k} {v:g}" for k, v in simple.options.items())
        return {
            "model": f"baseline {simple.model}"
            + (f" ({options})" if options else ""),
            "data": simple.data,
        }
    config = run.read_config()
    if not config.trains_tasks:
        towers = config.sequence_tower or "two towers"
        return {
            "model": f"retrieval by {towers}, without the tasks",
            "data": config.data,
            "seed": str(config.seed),
        }
    weights = ", ".join(f"{t} {w:g}" for t, w in config.task_weights.items())
    return {
        "model": _model(config),
        "data": config.data,
        "task weights": weights,
        "optimizer": f"{config.optimizer}, learning rate "
        f"{config.learning_rate:g}, batches of {config.batch_size:,}",
        "seed": str(config.seed),
    }


def _model(config: ResolvedConfig) -> str:
    text = (
        f"{config.architecture}, gate {config.gate}, "
        f"{config.routed_experts} experts, k {config.k}"
    )
    return text + (", with retrieval" if config.retrieval else "")


def _when(run: Run) -> dict[str, str]:
    written = datetime.fromtimestamp(run.metrics.stat().st_mtime, UTC)
    facts = {"finished": f"{written:%Y-%m-%d %H:%M} UTC"}
    if run.history.is_file():
        history = read_history(run.history)
        minutes = history["seconds"].sum() / 60
        facts["epochs"] = f"{len(history)}, {minutes:.1f} minutes of training"
    return facts


def _files(run: Run) -> dict[str, str]:
    facts = {}
    if run.model.is_file():
        facts["model file"] = f"{run.model.stat().st_size / 2**20:.1f} MiB"
    versions = read_json(run.config).get("versions")
    if isinstance(versions, dict):
        facts["versions"] = ", ".join(f"{k} {v}" for k, v in versions.items())
    return facts


def _scores(metrics: JsonMapping) -> dict[str, dict[str, str]]:
    """Values by metric and by what they are of."""
    by_metric: dict[str, dict[str, float | None]] = {}
    for split in ("validation", "test"):
        for name, value in _flat(metrics[split]).items():
            by_metric.setdefault(name, {})[split] = value
    test = metrics["test"]
    constants = {
        task: values["constant"]
        for task, values in test["tasks"].items()
        if "constant" in values
    }
    flat = _flat({"tasks": constants}) if constants else {}
    if "constant" in test:
        flat["loss"] = test["constant"]["loss"]
    for name, value in flat.items():
        by_metric.setdefault(name, {})["constant"] = value
    return {
        name: {
            of: "-" if value is None else f"{value:.4f}"
            for of, value in values.items()
        }
        for name, values in by_metric.items()
    }


def _flat(measured: JsonMapping) -> dict[str, float | None]:
    """The losses, then the scores, of all tasks."""
    flat: dict[str, float | None] = {}
    if "loss" in measured:
        flat["loss"] = measured["loss"]
    for task, values in measured["tasks"].items():
        flat[f"{task} loss"] = values.get("loss")
    flat |= task_scores(measured)
    experts = measured.get("experts_per_example")
    return flat | ({} if experts is None else {"experts per example": experts})


def _verdicts(run: Run, metrics: JsonMapping) -> Iterator[str]:
    test = metrics["test"]
    if not _has_tasks(run):
        yield "The tasks were not trained: recsys train --ranker does it."
    for task, values in test["tasks"].items():
        constant = values.get("constant")
        if constant and values["loss"] is not None and constant["loss"]:
            yield _against(
                f"{task!r}", "the constant", values["loss"], constant["loss"]
            )
    yield from _against_popular(test.get("retrieval", {}))
    yield from _against_simple(run, metrics)


def _against(what: str, rival: str, loss: float, rival_loss: float) -> str:
    change = loss / rival_loss - 1
    if abs(change) < _LEVEL:
        return f"{what} is level with {rival}: test loss {loss:.4f}."
    worse = "better" if change < 0 else "worse"
    return (
        f"{what} is {abs(change):.1%} {worse} than {rival}: test loss "
        f"{loss:.4f}, {rival} {rival_loss:.4f}.".replace("%", " %")
    )


def _against_popular(retrieval: JsonMapping) -> Iterator[str]:
    popular = retrieval.get("popular", {})
    for name, value in retrieval.items():
        reference = popular.get(name)
        if (
            not name.startswith("user_ndcg@")
            or value is None
            or reference is None
        ):
            continue
        worse = "better" if value > reference else "no better"
        yield (
            f"Retrieval is {worse} than the most popular items: "
            f"{name.removeprefix('user_')} per user {value:.4f}, popular "
            f"{reference:.4f}."
        )


def _against_simple(run: Run, metrics: JsonMapping) -> Iterator[str]:
    """The best of the baselines beside the run, by validation loss."""
    if not _has_tasks(run):
        return
    candidates = [
        (simple["validation"]["loss"], simple["test"]["loss"], folder.name)
        for folder, simple in _baselines(run)
        if not simple["test"].get("retrieval")
    ]
    if candidates:
        _, loss, name = min(candidates)
        yield _against(
            "The run",
            f"the best baseline, {name}",
            metrics["test"]["loss"],
            loss,
        )
    elif not is_baseline(run.config):
        yield (
            "Simple models were not fitted to the same data: recsys train "
            "--baselines does it, or recsys baseline."
        )


def _baselines(run: Run) -> Iterator[tuple[Path, JsonObject]]:
    for file in sorted(run.folder.glob("baselines/*/metrics.json")):
        simple = Run(file.parent)
        if is_baseline(simple.config) and simple.is_finished:
            yield file.parent, simple.read_metrics()


def scores_table(scores: Mapping[str, Mapping[str, str]]) -> Table:
    """Returns a table of the metrics of a run, one a row.

    Args:
        scores: Those of `overview`.
    """
    columns = [
        column
        for column in _COLUMNS
        if any(column in values for values in scores.values())
    ]
    rows = [
        [name, *(values.get(column, "") for column in columns)]
        for name, values in scores.items()
    ]
    return Table("Metrics", ["metric", *columns], rows)
