import shutil
from dataclasses import replace
from pathlib import Path

from keras_moe.compress import Report
from keras_moe.compress import prune
from keras_moe.compress import quantize
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from recsys.data import load
from recsys.errors import RunError
from recsys.errors.bounds import MOST_EXPERTS
from recsys.errors.bounds import check_count
from recsys.files.atomic import replacing
from recsys.files.folders import check_no_links
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.files.output_lock import sole_writer
from recsys.measuring.outcome import write_outcome
from recsys.measuring.sample import Sample
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.shared_tower import SharedTower
from recsys.runs.run import Run
from recsys.terminal.progress import announce


def compress(
    run: str | Path,
    data: str | Path,
    out: str | Path,
    experts: int | None = None,
    int8: bool = False,
    importance: str = "weight",
) -> JsonObject:
    """Makes a smaller model of that of a run.

    First experts are pruned, if `experts` is given, then those that remain
    are quantized, with `int8`: see `keras_moe.compress`. Their importance is
    measured on up to 4,096 rows of the validation split. Nothing is
    trained; `recsys train --from` goes on from a run whose experts were not
    quantized. A run with a budget keeps it, from 1 to the experts left.

    Args:
        run: Run folder.
        data: Data folder, or "synthetic".
        out: A new or empty folder, which becomes a run with the smaller model.
        experts: How many experts to keep, at least 2. All with `None`, the
            default.
        int8: Whether to store the experts as 8-bit integers. Defaults to
            `False`.
        importance: What prunes an expert: little `"weight"` (default), or
            little weight times the norm of its `"output"`.

    Returns:
        The content of the `metrics.json` of the new run.

    Raises:
        DataError: The data are missing or wrong, or do not fit the model.
        FileError: A file of the run is broken.
        RunError: There is no finished run in the folder, or one whose tasks
            were not trained, its architecture has no experts that can be
            pruned, or `out` is not empty.
        ValueError: Neither `experts` nor `int8` is given, or `experts` is
            below 2 or not below the number of experts of the run, or
            `importance` is unknown.
    """
    if experts is None and not int8:
        raise ValueError(
            "`experts` or `int8` must be given, or nothing would change. "
            "Received: experts=None, int8=False"
        )
    if experts is not None:
        check_count("experts", experts, MOST_EXPERTS)
    source, result = Run(run), Run(out)
    config, model = source.read_config(), source.load_model()
    if not source.is_finished:
        raise RunError(
            f"{source.folder}: expected a finished run. "
            "Received: one without metrics of the test split"
        )
    source.check_weighs(config, model)
    model.check_trained_tasks(source.folder)
    if experts is not None:
        _check_experts(source, model, experts)
    dataset = load(data, streaming=config.streaming)
    model.check_fits(dataset)
    splits, before = ["validation", "test"], None
    with sole_writer(out):
        check_no_links(out)
        result.check_empty()
        # Of the validation split, before that becomes part of the training.
        inputs = Sample.of(model, dataset).inputs
        if config.finds_by_validation:
            dataset = dataset.with_validation_in_training()
            splits = ["test"]
            before = {"validation": source.read_metrics()["validation"]}
        config = replace(config, data=str(data), out=str(result.folder))
        if experts is not None:
            announce(f"Pruning to {experts} experts")
            model, report = prune(
                model, inputs, experts, model.rows_per_step, importance
            )
            _announce(report)
            # Of experts that were split, any number may remain.
            config = replace(
                config,
                num_experts=experts,
                k=min(config.k, experts),
                gate_options=_options_left(config.gate_options, experts),
                expert_units=config.routed_units,
                split_experts=1,
            )
        if int8:
            announce("Quantizing the experts")
            model, report = quantize(model, inputs, model.rows_per_step)
            _announce(report)
        with replacing(result.folder) as unfinished:
            unfinished.mkdir()
            smaller = Run(unfinished)
            shutil.copyfile(source.data, smaller.data)
            smaller.write_config(config)
            smaller.save_model(model)
            return write_outcome(smaller, config, dataset, splits, before)


def _announce(report: Report) -> None:
    for line in str(report).splitlines():
        announce(line)


def _options_left(options: JsonMapping, experts: int) -> JsonObject:
    """A gate's options, with budgets of no more experts than there are."""
    budgets = options.get("train_budgets")
    if budgets is None:
        return dict(options)
    most = [min(budget, experts) for budget in budgets]
    return {**options, "train_budgets": most}


def _check_experts(run: Run, model: MultiTaskModel, experts: int) -> None:
    """Checks that the mixture can be pruned to so many experts."""
    mixture = model.mixture
    if isinstance(mixture, SharedTower):
        mixture = mixture.layer
    if not isinstance(mixture, (MoE, MMoE)):
        raise RunError(
            f"{run.folder}: expected a run of the architecture mmoe or moe, "
            f"whose experts can be pruned. Received: a {type(mixture).__name__}"
        )
    most = mixture.experts.num_experts
    if not 2 <= experts < most:
        raise ValueError(
            "`experts` must be at least 2, and fewer than the run's "
            f"{most} experts. Received: experts={experts}"
        )
