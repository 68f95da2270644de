from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from keras import ops

from recsys.config.train_config import TrainConfig
from recsys.data.load import AnyDataset
from recsys.data.schema import Schema
from recsys.data.streaming.split_stream import SplitStream
from recsys.errors import DataError
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.ranker import Ranker
from recsys.retrieval.ranks import Ranks
from recsys.retrieval.row_weights import row_weights
from recsys.retrieval.seen import Seen
from recsys.tasks.chains import labels_of
from recsys.tasks.row_weight import weights_of

_SCORES = 1 << 24  # At a time: 64 MiB of them.
_ROWS = 4096  # Most rows at a time.


def measure_retrieval(
    model: MultiTaskModel,
    dataset: AnyDataset,
    split: str,
    config: TrainConfig,
    k: int | None = None,
    most_rows: int | None = None,
) -> dict[str, Any]:
    """Returns how well a model retrieves the items of a split.

    The catalogue are all items of the training split. Each row that counts
    (`config.retrieval_label`) is a query, and its item the only right answer.
    An item that is not in the catalogue is one that is not found. Few rows
    are scored at a time, so that memory does not grow with the catalogue
    times the rows.

    Args:
        model: The model.
        dataset: The data set.
        split: Name of the split.
        config: The configuration of the model's run.
        k: How many items are retrieved; as the configuration says unless
            given.
        most_rows: How many rows of the split are drawn, always the same ones;
            all of them unless given.

    Returns:
        By `"retrieval"`, `"recall@<k>"`, `"ndcg@<k>"`, the number of `"rows"`
        that count and of `"items"` of the catalogue; the metrics are `None`
        where no row counts. Nothing at all for a model without retrieval.

    Raises:
        DataError: Seen items are to be excluded, and the data name no user.
    """
    if not isinstance(model, Ranker) or model.retrieval is None:
        return {}
    k = k or config.metrics_k
    schema, vectors = dataset.schema, model.retrieval.vectors.T  # (D, N)
    seen = None
    if config.retrieval_exclude_seen:
        seen = seen_items(model, dataset, config.retrieval_label)
    block = max(1, min(_ROWS, _SCORES // vectors.shape[1]))
    sums, total, rows = np.zeros(2), 0.0, 0
    given = dataset.split(split)
    if most_rows is not None and most_rows < len(given):
        given = given.sample(most_rows, random_state=0)
    for frame, weights in counting_rows(
        model, given, schema, config.retrieval_label
    ):
        for start in range(0, len(frame), block):
            part = frame.iloc[start : start + block]
            counts = weights[start : start + block].astype(np.float64)
            ranks = _ranks(model, part, vectors, seen, schema.user_id)
            sums += [counts @ ranks.recall(k), counts @ ranks.ndcg(k)]
            total, rows = total + counts.sum(), rows + len(part)
    recall, ndcg = (sums / total).tolist() if total else (None, None)
    measured = {f"recall@{k}": recall, f"ndcg@{k}": ndcg}
    counted = {"rows": rows, "items": model.retrieval.num_items}
    return {"retrieval": {**measured, **counted}}


def seen_items(model: Ranker, dataset: AnyDataset, label: str | None) -> Seen:
    """Returns the items of the rows of the training split that count, by user.

    Args:
        model: A model with retrieval.
        dataset: The data set.
        label: The task that says which rows count.

    Raises:
        DataError: The data name no user.
    """
    schema = dataset.schema
    user, retrieval = schema.user_id, model.retrieval
    assert retrieval is not None, "asked for with retrieval alone"
    if user is None:
        raise DataError.at(
            f"data set {schema.name!r}",
            "an id feature that is the 'user' in dataset.json, or is called "
            "user, to exclude what users have seen",
            f"the features {[*schema.features]}",
        )
    item = model.fitted[retrieval.item]
    rows = counting_rows(model, dataset.split("train"), schema, label)
    return Seen.of(
        (frame[user], item.encode(frame[retrieval.item])) for frame, _ in rows
    )


def counting_rows(
    model: MultiTaskModel, split: Any, schema: Schema, label: str | None
) -> Iterator[tuple[pd.DataFrame, Any]]:
    """Yields the rows that count for retrieval, with how much each does.

    Args:
        model: The model.
        split: The split, in memory or read part by part.
        schema: What its columns mean.
        label: The task that says which rows count.
    """
    for frame in frames_of(split):
        labels = labels_of(frame, model.tasks)
        weights = row_weights(
            labels, label, weights_of(frame, schema.weight), len(frame)
        )
        counting = weights > 0
        yield frame[counting], weights[counting]


def frames_of(split: Any) -> Iterable[pd.DataFrame]:
    """Returns the rows of a split, in memory or read part by part."""
    if isinstance(split, SplitStream):
        return map(split.read, split.units)
    return [split]


def _ranks(
    model: Ranker,
    rows: pd.DataFrame,
    vectors: Any,
    seen: Seen | None,
    user: str | None,
) -> Ranks:
    assert model.retrieval is not None, "asked for with retrieval alone"
    inputs = model.encode(rows)
    items = inputs[model.retrieval.item]
    queries = ops.convert_to_numpy(
        ops.stop_gradient(model.query_vectors(inputs))
    )
    excluded = None
    if seen is not None and user is not None:
        excluded = seen.pairs(rows[user])
        history = model.retrieval.history
        if history is not None:
            of_rows, places = np.nonzero(inputs[history] > 0)
            excluded = (
                np.append(excluded[0], of_rows),
                np.append(excluded[1], inputs[history][of_rows, places]),
            )
    return Ranks.of(queries @ vectors, items, excluded)
