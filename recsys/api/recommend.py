import warnings
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from keras import ops

from keras_moe.layers import record_routing
from recsys.api.use_baseline import recommend_baseline
from recsys.baselines.config import is_baseline
from recsys.data import load
from recsys.data.columns import parse
from recsys.data.image_dataset import ImageDataset
from recsys.data.items_file import with_titles
from recsys.data.load import AnyDataset
from recsys.data.schema import Schema
from recsys.data.streaming.frames import frames_of
from recsys.data.times import parse_times
from recsys.errors import DataError
from recsys.errors.bounds import check_count
from recsys.errors.shown import did_you_mean
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.measuring.measure_retrieval import seen_items
from recsys.models.two_tower import TwoTower
from recsys.retrieval.counting_rows import ALL_ROWS
from recsys.retrieval.formula import Formula
from recsys.retrieval.rerank import DIVERSITY
from recsys.retrieval.rerank import check_rerank
from recsys.retrieval.rerank.diverse_rows import diverse_rows
from recsys.retrieval.retrieval import RETRIEVAL
from recsys.runs.run import Run

CANDIDATES = 100
_MOST_EXPERTS = 3  # Of a task, that are named.


def recommend(
    run: str | Path,
    user: object,
    top: int = 10,
    score: str | None = None,
    data: str | Path | None = None,
    exclude_seen: bool = False,
    candidates: int = CANDIDATES,
    features: JsonMapping | None = None,
    rerank: str | None = None,
    diversity: float = DIVERSITY,
) -> pd.DataFrame:
    """Recommends items to a user: retrieves candidates and ranks them.

    What is known of the user is what the user's last row in the training split
    says, the latest one where the data have times; a sequence tower reads the
    history of that row and its item. Of a user who is not there
    nothing is known, which the model has learned to deal with, and a warning
    says so.

    Args:
        run: Folder of a run with retrieval.
        user: Id of the user.
        top: How many items to recommend. Defaults to 10.
        score: What items are ranked by, a `recsys.retrieval.formula.Formula`
            over the predictions, such as `"watch^0.7 * rating"`: the tasks by
            name, `<task>_0`, `<task>_1`, ... for the classes of a multiclass
            task, and `retrieval`, what items are retrieved by. An item for
            which it has no finite value in float32 comes last, with a NaN.
            Unless given, the task that retrieval was trained
            on, or the first prediction; the retrieval where the tasks have not
            been trained.
        data: Data folder, or "synthetic"; that of the run unless given.
        exclude_seen: Whether to leave out what the user has had in the rows
            of the training split that retrieval was trained on. Defaults to
            `False`.
        candidates: How many items are retrieved to be ranked. Defaults to 100.
        features: Values of features of the user or of the occasion, instead
            of what the data know. None unless given.
        rerank: What makes the items of the list different from each other:
            `"mmr"` or `"dpp"`, of `recsys.retrieval.rerank`. None unless
            given, and the score alone decides.
        diversity: How much that counts, beside the score: from 0 to 1. Without
            `rerank` it has no effect. Defaults to 0.3.

    Returns:
        A row for each item, the best first: its id in the column of the item's
        feature, its `"title"` where the data folder has titles, its `"score"`,
        the predictions, and in `"<task>_experts"` for each task up to three
        pairs of the experts with the largest weight and that weight.

    Raises:
        DataError: The data are missing or wrong, or name no user, or a feature
            is not one of the query's or has no such value.
        RunError: There is no trained run in the folder, or one without
            retrieval.
        ValueError: The score is no formula, or a number is less than 1.
    """
    check_count("top", top)
    check_count("candidates", candidates)
    check_rerank(rerank, diversity)
    folder = Run(run)
    if is_baseline(folder.config):
        if score is not None or features or rerank is not None:
            raise ValueError(
                "`score`, `features` and `rerank` must be left out for a "
                "baseline, which ranks by its own score. Received: "
                f"score={score!r}, features={features!r}, rerank={rerank!r}"
            )
        return recommend_baseline(folder.folder, user, top, data, exclude_seen)
    config = folder.read_config()
    ranker = folder.load_two_tower()
    retrieval = ranker.retrieval
    formula = score_formula(ranker, score)
    source = config.data if data is None else data
    dataset = load(source)
    ranker.check_fits(dataset)
    if config.finds_by_validation:
        dataset = dataset.with_validation_in_training()
    query = _query(ranker, dataset, user, features or {})
    inputs = {
        name: ranker.fitted[name].encode(query[name])
        for name in ranker.query_names
    }
    seen: np.ndarray = np.zeros(0, np.int32)
    if exclude_seen:
        had = seen_items(ranker, dataset, config.retrieval_label)
        seen = had.by(query[str(dataset.schema.user_id)].iloc[0])
        if retrieval.history is not None:
            history = inputs[retrieval.history]
            seen = np.append(seen, history[history > 0])
    numbers = retrieved(ranker, inputs, seen, candidates)
    table = ranked(ranker, inputs, numbers, formula)
    if rerank is not None:
        ranks = ranker.fitted[retrieval.item].encode(table[retrieval.item])
        vectors = ops.convert_to_numpy(retrieval.vectors)[ranks - 1]
        table = diverse_rows(table, vectors, rerank, diversity, top)
    return with_titles(table.head(top), source, retrieval.item)


def score_formula(ranker: TwoTower, score: str | None) -> Formula:
    """Returns what items are ranked by.

    Args:
        ranker: A ranker with retrieval.
        score: The formula; `None` for the task that retrieval was trained on,
            or the first prediction, or the retrieval where the tasks have not
            been trained.

    Raises:
        ValueError: It is no formula over the predictions.
    """
    names = [*ranker.columns(ranker.no_predictions())]
    if not ranker.has_trained_tasks:
        names, score = [], score or RETRIEVAL
    elif score is None:
        label = ranker.retrieval.label
        score = f"`{names[0] if label in (None, ALL_ROWS) else label}`"
    try:
        return Formula(score, [*names, RETRIEVAL])
    except ValueError as error:
        raise ValueError(f"`score`: {error}") from None


def _query(
    ranker: TwoTower,
    dataset: AnyDataset,
    user: object,
    features: JsonMapping,
) -> pd.DataFrame:
    """One row with the features of the query."""
    schema, names = dataset.schema, ranker.query_names
    if schema.user_id is None:
        raise DataError.at(
            schema.place,
            "an id feature that is the 'user' in dataset.json, or is called "
            "user",
            f"the features {[*schema.features]}",
        )
    for name in features:
        if name not in names or name == schema.user_id:
            candidates = [
                feature for feature in names if feature != schema.user_id
            ]
            raise DataError.at(
                "`features`",
                f"features among {candidates}{did_you_mean(name, candidates)}",
                repr(name),
            )
    known = _last_row(ranker, dataset, schema, user, features)
    values = {name: known.get(name) for name in names}
    # As the data have it: a text may stand for an id that is a number.
    values[schema.user_id] = known.get(schema.user_id, user)
    values |= features
    # A row with a list in it is no row of lists.
    row = pd.DataFrame(
        {
            name: pd.Series([value], dtype=object)
            for name, value in values.items()
        }
    )
    kinds = {name: schema.features[name] for name in names}
    return parse(row, kinds, "the features of the query")


def _last_row(
    ranker: TwoTower,
    dataset: AnyDataset,
    schema: Schema,
    user: object,
    features: JsonMapping,
) -> JsonObject:
    """Features of a user in the training split; none for an unknown one."""
    rows = _rows_of_user(ranker, dataset, schema, user)
    history = ranker.retrieval.history
    if not len(rows):
        if history in features:
            return {}  # A tower is not told who it is.
        warnings.warn(
            f"the training split has no {schema.user_id} {user!r}: these are "
            f"recommendations for an unknown {schema.user_id}",
            stacklevel=4,
        )
        return {}
    last = len(rows) - 1
    if schema.time is not None:
        times = parse_times(rows[schema.time], "train").to_numpy()
        last = int(np.flatnonzero(times == times.max())[-1])
    known = {column: rows[column].iloc[last] for column in ranker.query_names}
    if history is not None:
        item = rows[str(schema.item_id)].iloc[last]
        known[history] = [*known[history], item]
    return known


def _rows_of_user(
    ranker: TwoTower, dataset: AnyDataset, schema: Schema, user: object
) -> pd.DataFrame:
    """The rows of the training split with a user."""
    name = str(schema.user_id)
    encode, kind = ranker.fitted[name].encode, schema.features[name]
    row = pd.DataFrame({name: pd.Series([user], dtype=object)})
    parsed = parse(row, {name: kind}, "`user`")
    (number,) = encode(parsed[name])
    if not number:
        return pd.DataFrame()
    assert not isinstance(dataset, ImageDataset), "a ranker fits tables alone"
    frames = frames_of(dataset.split("train"))
    return pd.concat([frame[encode(frame[name]) == number] for frame in frames])


def retrieved(
    ranker: TwoTower,
    inputs: Mapping[str, np.ndarray],
    seen: np.ndarray,
    candidates: int,
) -> np.ndarray:
    """Returns the numbers of the items to be ranked, the best fit first.

    Args:
        ranker: A ranker with retrieval.
        inputs: The features of one query, as `encode` returns them.
        seen: Numbers of items that are no candidates.
        candidates: How many items at most.
    """
    retrieval = ranker.retrieval
    count = min(retrieval.num_items, candidates + len(set(seen.tolist())))
    _, nearest = retrieval.retrieve(ranker.query_vectors(inputs), count)
    numbers = ops.convert_to_numpy(nearest)[0]
    return numbers[~np.isin(numbers, seen)][:candidates]


def ranked(
    ranker: TwoTower,
    inputs: Mapping[str, np.ndarray],
    numbers: np.ndarray,
    formula: Formula,
) -> pd.DataFrame:
    """Returns items with their other columns, the best first.

    Args:
        ranker: A ranker with retrieval.
        inputs: The features of one query, as `encode` returns them.
        numbers: The numbers of the items.
        formula: What they are ranked by.

    Returns:
        A row for each item: its id, the score, and where the tasks have been
        trained the predictions and experts.
    """
    retrieval = ranker.retrieval
    ids = ranker.vocabularies[retrieval.item].values[numbers - 1]
    columns, experts = _predicted(ranker, inputs, numbers)
    (query,) = ops.convert_to_numpy(ranker.query_vectors(inputs))
    fits = np.asarray(retrieval.vectors[numbers - 1] @ query, np.float64)
    scores = formula({**columns, RETRIEVAL: fits})
    scores = np.broadcast_to(scores, len(numbers))
    # As an exported model has it, whose scores are float32.
    is_score = np.abs(scores) <= np.finfo(np.float32).max
    scores = np.where(is_score, scores, np.nan)
    table = pd.DataFrame(
        {retrieval.item: ids, "score": scores, **columns, **experts}
    )
    # What has no score, such as a logarithm of 0, is last.
    return table.sort_values(
        "score", ascending=False, kind="stable", ignore_index=True
    )


def _predicted(
    ranker: TwoTower,
    inputs: Mapping[str, np.ndarray],
    numbers: np.ndarray,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns predictions for items, and the experts that made them, by column.

    Untrained tasks have none.
    """
    if not ranker.has_trained_tasks:
        return {}, {}
    predictions = ranker.no_predictions()
    experts: dict[str, np.ndarray] = {}
    if len(numbers):
        rows = {
            name: np.repeat(values, len(numbers), axis=0)
            for name, values in inputs.items()
        } | ranker.retrieval.items(numbers)
        with record_routing() as records:
            outputs = ranker(
                {
                    name: ops.convert_to_tensor(values)
                    for name, values in rows.items()
                },
                training=False,
            )
        predictions = {
            task: ops.convert_to_numpy(outputs[task]) for task in outputs
        }
        experts = _experts(ranker.tasks, records)
    columns = {
        name: np.asarray(values, np.float64)
        for name, values in ranker.columns(predictions).items()
    }
    return columns, experts


def _experts(
    tasks: Sequence[str] | Mapping[str, object], records: Sequence[Any]
) -> dict[str, np.ndarray]:
    """For each task and row, the experts with the largest weights.

    Where experts come in levels, those of the last one, which the head sees.
    """
    if not records:
        return {}
    record = records[-1]
    named = {}
    for task in tasks:
        weights = record.weights.get(
            task, record.weights.get(record.mixture.name)
        )
        array = ops.convert_to_numpy(weights)
        order = np.argsort(-array, axis=-1, kind="stable")[:, :_MOST_EXPERTS]
        rows: Any = np.empty(len(array), object)
        rows[:] = [
            [
                (int(expert), float(row[expert]))
                for expert in best
                if row[expert] > 0
            ]
            for row, best in zip(array, order, strict=True)
        ]
        named[f"{task}_experts"] = rows
    return named
