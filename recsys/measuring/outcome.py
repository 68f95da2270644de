from collections.abc import Sequence

import pandas as pd

from keras_moe.callbacks import RoutingModel
from keras_moe.callbacks import experts_per_example_curve
from keras_moe.callbacks import load_heat_map
from keras_moe.callbacks import measure_routing
from keras_moe.layers import Gate
from recsys import plots
from recsys.config.resolved_config import PARTS
from recsys.config.resolved_config import TASKS
from recsys.config.resolved_config import ResolvedConfig
from recsys.data import Split
from recsys.data.load import AnyDataset
from recsys.files.file_names import file_names
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.files.json_files import write_json
from recsys.measuring.curves import read_history
from recsys.measuring.curves import until_binary
from recsys.measuring.epoch_choice import EpochChoice
from recsys.measuring.measure_retrieval import measure_retrieval
from recsys.measuring.measuring import Measuring
from recsys.measuring.measuring import scoring
from recsys.measuring.sample import Sample
from recsys.measuring.search_distance import search_distance
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.scorer import Scores
from recsys.private_names import each_layer
from recsys.runs.run import Run
from recsys.tasks import RowRoles
from recsys.tasks.chains import labels_of


def has_routing(model: MultiTaskModel) -> bool:
    """Returns whether any gate is at work in the model."""
    return any(isinstance(layer, Gate) for layer in each_layer(model))


def write_outcome(
    run: Run,
    config: ResolvedConfig,
    dataset: AnyDataset,
    splits: Sequence[str],
    before: JsonMapping | None = None,
) -> JsonObject:
    """Evaluates the model of a run; writes metrics, plots and a sample.

    Args:
        run: The run, with a model.
        config: The run's configuration.
        dataset: The data set that the model was trained on.
        splits: The splits to evaluate; predictions are drawn for the last.
        before: The metrics of further splits, of an earlier model. None unless
            given.

    Returns:
        The metrics by split; beside them, what `search_distance` returns for
        a run that has searched for permutations, as "permutation_distance",
        and, where the epoch was not chosen by the loss of the tasks alone, what
        `EpochChoice.chosen` returns, as "selected", and of towers that are
        trained after them as "selected_towers".
    """
    model = run.load_model()
    measured = Measuring.of(model, config, dataset.schema)
    metrics: JsonObject = dict(before or {})
    scores_of = scoring(model)
    for split in splits:
        scores = scores_of(dataset.split(split))
        rows = dataset.split(split)[dataset.schema.truth_columns]
        metrics[split] = measured(scores, rows) | measure_retrieval(
            model, dataset, split, config
        )
    if model.has_trained_tasks:
        roles = dataset.schema.roles(rows)
        _draw_predictions(run, model, rows, scores, roles, split)
    sample = Sample.of(model, dataset)
    sample.write(run.sample)
    if model.has_trained_tasks and has_routing(model):
        _draw_routing(run, model, sample)
    if run.history.is_file():
        history = read_history(run.history)
        choice = EpochChoice.of(config, model.tasks)
        _draw_history(run, model, history, choice)
        metrics = {s: metrics[s] | until_binary(history) for s in metrics}
        distance = search_distance(config, history)
        if distance is not None:
            metrics["permutation_distance"] = distance
        if config.select != TASKS:
            metrics["selected"] = choice.chosen(history)
    if config.select == PARTS and run.tower_history.is_file():
        of_towers = EpochChoice(f"val_ndcg@{config.metrics_k}", higher=True)
        towers = pd.read_csv(run.tower_history)
        metrics["selected_towers"] = of_towers.chosen(towers)
    write_json(run.metrics, metrics)
    return metrics


def _draw_predictions(
    run: Run,
    model: MultiTaskModel,
    rows: Split,
    scores: Scores,
    roles: RowRoles,
    split: str,
) -> None:
    labels, files = labels_of(rows, model.tasks), file_names(model.tasks)
    for task, kind in model.tasks.items():
        figures = kind.figures(
            f"{plots.in_figure(task)}, {split} split",
            labels[task],
            scores.predictions[task],
            roles.weights,
        )
        for name, figure in figures.items():
            plots.save(figure, run.plots / f"{name}_{files[task]}.png")


def _draw_routing(run: Run, model: MultiTaskModel, sample: Sample) -> None:
    statistics = measure_routing(RoutingModel(model), [sample.inputs])
    figure = load_heat_map(
        {
            plots.in_figure(task): values["load_per_expert"]
            for task, values in statistics.items()
        }
    )
    plots.save(figure, run.plots / "load_heat_map.png")


def _draw_history(
    run: Run,
    model: MultiTaskModel,
    history: pd.DataFrame,
    choice: EpochChoice,
) -> None:
    tasks = list(model.tasks)
    figure = plots.loss_curves(history, tasks, choice.best_row(history))
    plots.save(figure, run.plots / "loss_curves.png")
    columns = _experts_columns(history)
    if columns:
        figure = experts_per_example_curve(
            {
                plots.in_figure(task): history[name].tolist()
                for task, name in columns.items()
            },
            history["epoch"].tolist(),
        )
        plots.save(figure, run.plots / "experts_per_example.png")


def _experts_columns(history: pd.DataFrame) -> dict[str, str]:
    """The columns with the experts per example, by what each is of."""
    name = "experts_per_example"
    columns = {
        column.removesuffix(f"_{name}"): column
        for column in map(str, history)
        if column.endswith(f"_{name}")
    }
    if not columns and name in history:
        return {"all tasks": name}
    return columns
