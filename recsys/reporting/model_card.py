"""A model card: what a model is, what it was trained on, and its limits.

References:
    Mitchell et al., Model Cards for Model Reporting, FAT* 2019.
"""

from collections.abc import Iterator
from collections.abc import Mapping

from recsys.config.resolved_config import ResolvedConfig
from recsys.files.json_files import JsonMapping
from recsys.models.ranker import Ranker
from recsys.reporting.markdown import markdown_table
from recsys.reporting.markdown import markdown_text

# Slices with fewer rows say little.
_LEAST_ROWS = 50
_POOR_CALIBRATION = 0.05
_MUCH = 0.1  # Share of rows with unknown ids, or of additional loss.


def model_card(
    name: str,
    ranker: Ranker,
    config: ResolvedConfig,
    metrics: JsonMapping,
    slices: JsonMapping,
    versions: Mapping[str, str],
) -> str:
    """Returns the card of a trained ranker, Markdown.

    Args:
        name: Name of its data.
        ranker: The ranker.
        config: The configuration of its run.
        metrics: What `metrics.json` holds, by split.
        slices: Metrics of the test split by feature and cut, as
            `slice_metrics` returns them; empty where they are not known.
        versions: Versions of the packages that it was trained with.
    """
    test = metrics.get("test", {})
    if not ranker.has_trained_tasks:
        test = {**test, "tasks": {}}
    sections = {
        "Model": _model(ranker, config, versions, test),
        "Data": _data(name, config, metrics),
        "Features": _features(ranker),
        "Tasks": _tasks(ranker, test),
        "Metrics by slice": _slices(slices, test),
        "Limits": "\n".join(f"- {line}" for line in _limits(slices, test)),
    }
    if not ranker.has_trained_tasks:
        del sections["Metrics by slice"]
        sections["Tasks"] = (
            "Not trained: the model retrieves items, and predicts no task."
        )
    lines = [f"# Model card: {markdown_text(name)}", ""]
    for title, text in sections.items():
        lines += [f"## {title}", "", text, ""]
    return "\n".join(lines)


def _model(
    ranker: Ranker,
    config: ResolvedConfig,
    versions: Mapping[str, str],
    test: JsonMapping,
) -> str:
    packages = ", ".join(f"{name} {v}" for name, v in versions.items())
    experts = [
        ["architecture", str(config.architecture)],
        ["gate", str(config.gate)],
        ["experts", str(config.num_experts)],
        ["experts per row", _number(test.get("experts_per_example"))],
    ]
    facts = [
        *(experts if config.trains_tasks else []),
        ["parameters", f"{ranker.count_params():,}"],
        ["trained on", str(config.backend)],
        ["seed", str(config.seed)],
        ["versions", packages],
    ]
    return markdown_table(["", "value"], facts)


def _data(name: str, config: ResolvedConfig, metrics: JsonMapping) -> str:
    rows = [
        [split, f"{of_split['rows']:,}"]
        for split, of_split in metrics.items()
        if "rows" in of_split
    ]
    text = f"Trained on the training split of {markdown_text(name)}"
    if config.finds_by_validation:
        towers = "; the towers also on " if config.refit_towers else ", and "
        text += f"{towers}its validation split"
    return f"{text}; measured on\n\n{markdown_table(['split', 'rows'], rows)}"


def _features(ranker: Ranker) -> str:
    rows = []
    for name, feature in ranker.fitted.items():
        vocabulary = feature.vocabulary
        known = "" if vocabulary is None else f"{vocabulary.size:,}"
        rows.append([name, feature.kind.type, feature.raw_dtype, known])
    return markdown_table(["feature", "kind", "input", "known ids"], rows)


def _tasks(ranker: Ranker, test: JsonMapping) -> str:
    rows = []
    for task, kind in ranker.tasks.items():
        measured = test.get("tasks", {}).get(task, {})
        constant = measured.get("constant", {})
        for metric, value in measured.items():
            if isinstance(value, float):
                rows.append(
                    [
                        f"{task} ({kind.type})",
                        metric,
                        f"{value:.4g}",
                        _number(constant.get(metric)),
                    ]
                )
    header = ["task", "metric", "test split", "constant prediction"]
    return markdown_table(header, rows)


def _slices(slices: JsonMapping, test: JsonMapping) -> str:
    """The loss and, where there is one, the AUC of each task in each cut."""
    rows = []
    for feature, cut, measured in _large(slices):
        for task, values in measured["tasks"].items():
            rows.append(
                [
                    f"{feature}: {cut}",
                    f"{measured['rows']:,}",
                    task,
                    _number(values.get("loss")),
                    _number(values.get("auc")),
                ]
            )
    for task, values in test.get("tasks", {}).items():
        loss, auc = values.get("loss"), values.get("auc")
        rows.append(["all", "", task, _number(loss), _number(auc)])
    return markdown_table(["slice", "rows", "task", "loss", "AUC"], rows)


def _limits(slices: JsonMapping, test: JsonMapping) -> Iterator[str]:
    """What follows from the metrics, then what holds for every model."""
    for task, values in test.get("tasks", {}).items():
        task = markdown_text(task)
        if (values.get("ece") or 0) > _POOR_CALIBRATION:
            yield (
                f"The probabilities of {task} are off by {values['ece']:.3f} "
                "on average (`ece`): calibrate them before using their size."
            )
        constant = values.get("constant", {}).get("loss")
        if constant is not None and values["loss"] >= constant:
            yield f"{task} is predicted no better than by a constant."
    rows = test.get("rows", 0)
    for feature, cut, measured in _large(slices):
        where = f"{markdown_text(feature)}: {markdown_text(cut)}"
        for task, values in measured["tasks"].items():
            whole = test.get("tasks", {}).get(task, {}).get("loss")
            loss = values.get("loss")
            if whole and loss is not None and loss > (1 + _MUCH) * whole:
                more = 100 * (loss / whole - 1)
                yield (
                    f"The loss of {markdown_text(task)} is {more:.0f} % higher "
                    f"for {where}."
                )
        if cut == "unknown" and measured["rows"] > _MUCH * rows > 0:
            yield f"Many rows have an unknown id, {where}."
    yield (
        "Unknown ids share one learned vector per table; predictions for them "
        "rest on the other features."
    )
    yield (
        "The metrics are those of logged rows: what was not shown has no "
        "label, and behaviour since then may have changed."
    )


def _large(
    slices: JsonMapping,
) -> Iterator[tuple[str, str, Mapping[str, dict[str, JsonMapping]]]]:
    for feature, cuts in slices.items():
        for cut, measured in cuts.items():
            if measured["rows"] >= _LEAST_ROWS:
                yield feature, cut, measured


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
