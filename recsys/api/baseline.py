from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from recsys.baselines import RANKING
from recsys.baselines import RETRIEVAL
from recsys.baselines.baseline_run import BaselineRun
from recsys.baselines.config import BaselineConfig
from recsys.baselines.fitted_retrieval import FittedRetrieval
from recsys.baselines.grid_search import Trial
from recsys.baselines.grid_search import search
from recsys.baselines.interactions import Interactions
from recsys.baselines.option import Options
from recsys.baselines.ranking_baseline import RankingBaseline
from recsys.baselines.retrieval_data import RetrievalData
from recsys.data import load
from recsys.data.load import AnyDataset
from recsys.data.load import load_schema
from recsys.errors.memory import free_memory
from recsys.files.atomic import replacing
from recsys.files.folders import check_no_links
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.files.json_files import write_json
from recsys.files.output_lock import sole_writer
from recsys.models.expected_memory import in_units
from recsys.models.label_statistics import constant_predictions
from recsys.models.label_statistics import target_scales
from recsys.retrieval.counting_rows import counting_label
from recsys.runs.data_file import write_data
from recsys.runs.run import Run
from recsys.terminal.progress import announce
from recsys.training.resolve_config import standardizes
from recsys.training.resolve_config import weights_of_tasks


def baseline(config: BaselineConfig | JsonMapping) -> JsonObject:
    """Fits a baseline, and fills a run folder.

    Hyperparameters that are not given are chosen on the validation split,
    those of retrieval by the NDCG per user, those of ranking by the loss.

    Args:
        config: A `BaselineConfig`, or a mapping of its fields.

    Returns:
        The content of `metrics.json`, under the names of a trained run. A
        baseline of retrieval predicts the constant of each task, one that
        ranks has no `"retrieval"`.

    Raises:
        DataError: The data are missing or wrong, or name no user or no item.
        RunError: The run folder is not empty, or another process is writing
            to it.
        ValueError, TypeError: A field of the configuration is wrong, or there
            is no memory for the model.
    """
    if not isinstance(config, BaselineConfig):
        config = BaselineConfig(**config)
    run = Run(config.out)
    with sole_writer(config.out):
        check_no_links(config.out)
        run.check_empty()
        return _baseline(_resolved(config), run)


def _resolved(config: BaselineConfig) -> BaselineConfig:
    schema = load_schema(config.data)
    if schema.holds_images:
        raise ValueError(
            "`data` must be a data set of tables for a baseline. "
            f"Received: data={config.data!r}, images"
        )
    if config.data != "synthetic":
        config = replace(config, data=str(Path(config.data).resolve()))
    config = replace(
        config,
        task_weights=weights_of_tasks(config.task_weights, schema),
        standardize_targets=standardizes(config.standardize_targets, schema),
    )
    if config.model in RETRIEVAL:
        label = counting_label(config.retrieval_label, schema)
        config = replace(config, retrieval_label=label)
    return config


def _baseline(config: BaselineConfig, run: Run) -> JsonObject:
    announce(f"Reading the data in {config.data}")
    in_memory = False if config.model in RANKING else None
    dataset = load(config.data, streaming=in_memory)
    constants = constant_predictions(dataset)
    scales = _scales(config, dataset)
    fit = _fit_ranking if config.model in RANKING else _fit_retrieval
    model, chosen, trials = fit(config, dataset)
    config = replace(config, options=chosen)
    announce("Measuring the validation and the test split")
    k = config.metrics_k
    fitted = BaselineRun(config, model, constants, scales)
    metrics = {"validation": fitted.measure(dataset, "validation", k)}
    if config.refit and isinstance(model, FittedRetrieval):
        data = RetrievalData(dataset, str(config.retrieval_label))
        both = data.interactions(["train", "validation"])
        del model, fitted  # Of large ones, memory has no room for two.
        again = _fit_retriever(config, both, chosen)
        fitted = BaselineRun(config, again, constants, scales)
    metrics["test"] = fitted.measure(dataset, "test", k)
    fitted.write()
    write_data(run.data, config.data)
    table = [
        {**options, "validation": score, "seconds": seconds}
        for options, score, seconds in trials
    ]
    with replacing(run.folder / "trials.csv") as unfinished:
        pd.DataFrame(table).to_csv(unfinished, index=False)
    write_json(run.metrics, metrics)
    return metrics


def _scales(config: BaselineConfig, dataset: AnyDataset) -> dict[str, float]:
    return target_scales(dataset) if config.standardize_targets else {}


Fitted = tuple[FittedRetrieval | RankingBaseline, dict[str, float], list[Trial]]


def _fit_retrieval(config: BaselineConfig, dataset: AnyDataset) -> Fitted:
    data = RetrievalData(dataset, str(config.retrieval_label))
    interactions = data.interactions(["train"])
    queries = data.queries("validation")
    name = f"user_ndcg@{config.metrics_k}"
    seen = None
    if config.exclude_seen:
        seen = data.seen("validation", interactions.items)

    def score(model: FittedRetrieval) -> float:
        metrics = model.measure(
            queries,
            config.metrics_k,
            seen,
            not config.exclude_seen_targets,
            beside=(),
        )
        return float(metrics[name])

    return search(
        RETRIEVAL[config.model].options,
        config.options,
        lambda options: _fit_retriever(config, interactions, options),
        score,
    )


def _fit_retriever(
    config: BaselineConfig, interactions: Interactions, options: Options
) -> FittedRetrieval:
    kind, items = RETRIEVAL[config.model], interactions.num_items
    if kind.most_items is not None and items > kind.most_items:
        raise ValueError(
            f"`model` {config.model} takes at most {kind.most_items:,} items. "
            f"Received: model={config.model!r} for {items:,} items"
        )
    size, free = kind.memory(interactions, options), free_memory()
    if size > free:
        raise ValueError(
            f"`model` must fit into the {in_units(free)} of free memory. "
            f"Received: model={config.model!r}, which takes {in_units(size)} "
            f"for {items:,} items"
        )
    announce(
        f"Fitting {config.model}: {interactions.num_users:,} users, "
        f"{items:,} items, up to {in_units(size)} of memory"
    )
    return FittedRetrieval(
        kind.fit(interactions, options, config.seed), interactions
    )


def _fit_ranking(config: BaselineConfig, dataset: Any) -> Fitted:
    kind = RANKING[config.model]
    constants = constant_predictions(dataset)
    scales = _scales(config, dataset)

    def score(model: RankingBaseline) -> float:
        fitted = BaselineRun(config, model, constants, scales)
        metrics = fitted.measure(dataset, "validation", config.metrics_k)
        return -float(metrics["loss"])

    return search(
        kind.options,
        config.options,
        lambda options: kind.fit(dataset, options, config.seed),
        score,
    )
