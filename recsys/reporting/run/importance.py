from collections.abc import Mapping

import numpy as np

from recsys import plots
from recsys.errors.shapes import check_shape
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.files.json_files import read_json
from recsys.measuring.loss_growths import TOTAL
from recsys.measuring.loss_growths import growth_by_feature
from recsys.measuring.loss_growths import loss_growths
from recsys.measuring.measure import trained_loss
from recsys.reporting.run.predictions import predict
from recsys.reporting.section import Picture
from recsys.reporting.section import Section
from recsys.reporting.section import Table
from recsys.reporting.trained import Trained

_MOST_FEATURES = 50  # In the table.
_MOST_ROWS = 1024
_REPEATS = 2

Inputs = dict[str, np.ndarray]


def importance(run: Trained) -> Section | None:
    """Draws how much the loss grows when a feature is shuffled.

    What `recsys explain` has measured counts; without that, it is measured on
    up to 1,024 rows of the run's sample.

    Args:
        run: The run.
    """
    file = run.run.folder / "importance.json"
    if file.is_file():
        measured = _checked(read_json(file), file)
        source = ""
    elif run.has_predictions:
        measured = of_sample(run)
        source = (
            " These rows are a sample; recsys explain measures a whole split."
        )
    else:
        return None
    tasks, units = list(measured["tasks"]), measured["units"]
    header = ["feature", "weighted total"]
    header += [f"{task} ({units[task]})" for task in tasks]
    rows = [
        [
            name,
            _shown(growth),
            *(_shown(measured["tasks"][task][name]) for task in tasks),
        ]
        for name, growth in [*measured["total"].items()][:_MOST_FEATURES]
    ]
    return Section(
        "Importance of features",
        f"How much the loss of {measured['rows']:,} rows of the "
        f"{measured['split']} split grows when a feature is shuffled among "
        f"them: the mean of {measured['repeats']} shuffles ± their standard "
        "deviation, in the unit of each loss. What two features tell alike, "
        f"neither has alone.{source}",
        [Table("Growth of the loss", header, rows)],
        [
            Picture(
                "importance",
                "Growth of the loss when a feature is shuffled, the most "
                "important feature first",
                plots.importance(measured),
            )
        ],
        findings=_findings(measured["total"]),
    )


def of_sample(run: Trained) -> JsonObject:
    """Measures importance on the run's sample, in the form of `explain`.

    Args:
        run: A run with a model whose tasks were trained.
    """
    inputs = {n: x[:_MOST_ROWS] for n, x in run.sample.inputs.items()}
    labels = {t: y[:_MOST_ROWS] for t, y in run.sample.labels.items()}
    rows = len(next(iter(inputs.values())))

    def shuffled(
        inputs: Inputs, name: str, generator: np.random.Generator
    ) -> Inputs:
        return {**inputs, name: inputs[name][generator.permutation(rows)]}

    growths = loss_growths(
        lambda inputs: _losses(run, inputs, labels),
        inputs,
        inputs,
        shuffled,
        _REPEATS,
        seed=0,
    )
    model = run.loaded
    return {
        "split": "validation",
        "rows": rows,
        "repeats": _REPEATS,
        "total": growth_by_feature(growths, TOTAL),
        "tasks": {
            task: growth_by_feature(growths, task) for task in model.tasks
        },
        "units": {
            task: kind.unit(model.target_scales.get(task))
            for task, kind in model.tasks.items()
        },
    }


def _losses(
    run: Trained,
    inputs: Mapping[str, np.ndarray],
    labels: Mapping[str, np.ndarray],
) -> dict[str, float]:
    """The weighted loss, and that of each task; 0 where it has no label."""
    model, losses = run.loaded, {}
    for task, predicted in predict(model, inputs).items():
        known = ~np.isnan(labels[task])
        scale = model.target_scales.get(task)
        metrics = model.tasks[task].measure(
            labels[task][known], predicted[known], scale
        )
        losses[task] = trained_loss(metrics) or 0.0
    weights = run.config.task_weights
    total = sum(weights[task] * loss for task, loss in losses.items())
    return {TOTAL: total, **losses}


def _checked(measured: JsonObject, file: object) -> JsonObject:
    growth = dict[str, dict[str, float]]
    check_shape(measured.get("total"), growth, file)
    check_shape(measured.get("tasks"), dict[str, growth], file)
    check_shape(measured.get("units"), dict[str, str], file)
    return measured


def _shown(growth: JsonMapping) -> str:
    return f"{growth['mean']:+.4f} ± {growth['deviation']:.4f}"


def _findings(total: JsonMapping) -> list[str]:
    first, growth = next(iter(total.items()))
    sentences = [f"The model relies most on {first!r}: {_shown(growth)}."]
    idle = [n for n, g in total.items() if g["mean"] <= g["deviation"]]
    if idle:
        names = ", ".join(map(repr, idle[:10])) + ", ..." * (len(idle) > 10)
        sentences.append(
            f"Shuffling hardly changes the loss for {names}: the model may do "
            "without."
        )
    return sentences
