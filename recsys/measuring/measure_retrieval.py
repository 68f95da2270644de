from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd
from keras import ops

from recsys.config.resolved_config import ResolvedConfig
from recsys.data.load import AnyDataset
from recsys.data.schema import Schema
from recsys.errors import DataError
from recsys.files.json_files import JsonObject
from recsys.measuring.retrieval_metrics import POPULAR
from recsys.measuring.retrieval_metrics import ListCollector
from recsys.measuring.retrieval_metrics import QueryRows
from recsys.measuring.retrieval_metrics import Scored
from recsys.measuring.retrieval_metrics import retrieval_metrics
from recsys.measuring.retrieval_metrics import rows_at_once
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.two_tower import TwoTower
from recsys.retrieval.counting_rows import counting_rows
from recsys.retrieval.retrieval import Retrieval
from recsys.retrieval.seen import Seen
from recsys.retrieval.seen import splits_before
from recsys.retrieval.user_targets import UserTargets
from recsys.retrieval.user_targets import times_of
from recsys.sequences.sequence_retrieval import SequenceRetrieval

_POSITIONS = 1 << 13  # Of histories that a sequence tower reads at a time.
# Frames of the rows that count, with how much each does.
_Counting = Iterator[tuple[pd.DataFrame, np.ndarray]]


def measure_retrieval(
    model: MultiTaskModel,
    dataset: AnyDataset,
    split: str,
    config: ResolvedConfig,
    k: int | None = None,
    most_rows: int | None = None,
) -> JsonObject:
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
        By `"retrieval"`, `"recall@<k>"` and `"ndcg@<k>"` of rows,
        `"user_recall@<k>"` and `"user_ndcg@<k>"` of users, where the data
        name them, as `RetrievalMetrics` has them, the numbers of `"rows"`
        that count, of `"items"` of the catalogue and of `"users"`, and by
        `"popular"` the same metrics of recommending to all what the most rows
        of the training split have; by `"diversity"`, what `ListCollector`
        measures. The metrics are `None` where no row counts. Nothing at all
        for a model without retrieval.

    Raises:
        DataError: Seen items are to be excluded, and the data name no user.
    """
    if not isinstance(model, TwoTower):
        return {}
    measure = RetrievalMeasure(model, dataset, split, config, k, most_rows)
    lists = ListCollector(measure.k)
    metrics = measure(lists)
    assert measure.popular is not None, "measured as well"
    vectors = ops.convert_to_numpy(model.retrieval.vectors)
    metrics["diversity"] = lists.measure(measure.popular, vectors)
    return {"retrieval": metrics}


class RetrievalMeasure:
    """Measures how well a model retrieves the items of a split, repeatedly.

    What does not change while the model is trained is found once: which rows
    are looked at, what users are to find and what they have seen.

    Args:
        ranker: A model with retrieval.
        dataset: The data set.
        split: Name of the split.
        config: The configuration of the model's run.
        k: As that of `measure_retrieval`.
        most_rows: As that of `measure_retrieval`.
        popular: Whether what is popular is measured as well. Defaults to
            `True`.

    Call arguments:
        lists: Collects what is retrieved. None unless given.

    Returns:
        What `measure_retrieval` has under `"retrieval"`, for the model as it
        is when called.

    Raises:
        DataError: Seen items are to be excluded, and the data name no user.
    """

    def __init__(
        self,
        ranker: TwoTower,
        dataset: AnyDataset,
        split: str,
        config: ResolvedConfig,
        k: int | None = None,
        most_rows: int | None = None,
        popular: bool = True,
    ) -> None:
        self.ranker = ranker
        self.k = k or config.metrics_k
        schema, label = dataset.schema, config.retrieval_label
        self.keep_targets = not config.retrieval_exclude_seen_targets
        self.user = schema.user_id
        self.popular = popularity(ranker, dataset, label) if popular else None
        self.seen: Seen | None = None
        if config.retrieval_exclude_seen:
            before = splits_before(split)
            self.seen = seen_items(ranker, dataset, label, before)
        rows = dataset.split(split)
        if most_rows is not None and most_rows < len(rows):
            rows = rows.sample(most_rows, random_state=0)
        self.counting = partial(
            counting_rows, rows, schema, ranker.tasks, label
        )
        self.targets: UserTargets | None = None
        if self.user is not None:
            self.targets = _targets(ranker, self.counting, schema)

    def blocks(self) -> Iterator[Scored]:
        """Yields the rows that count with the scores of all items."""
        return _blocks(
            self.ranker, self.counting, self.user, self.seen, self.popular
        )

    def __call__(self, lists: ListCollector | None = None) -> JsonObject:
        blocks = self.blocks()
        if lists is not None:
            blocks = lists.collecting(blocks)
        num_items = self.ranker.retrieval.num_items
        beside = () if self.popular is None else (POPULAR,)
        return retrieval_metrics(
            blocks,
            self.k,
            self.targets,
            num_items,
            beside,
            keep_targets=self.keep_targets,
        )


def _blocks(
    model: TwoTower,
    counting: Callable[[], _Counting],
    user: str | None,
    seen: Seen | None,
    popular: np.ndarray | None,
) -> Iterator[Scored]:
    """The rows of a split with the scores of all items, a few at a time."""
    vectors = model.retrieval.vectors.T  # (D, N)
    size, first = _rows_at_once(model.retrieval), 0
    for frame, weights in counting():
        for start in range(0, len(frame), size):
            part = frame.iloc[start : start + size]
            inputs = model.encode(part)
            excluded = None
            if seen is not None and user is not None:
                excluded = _with_history(model, inputs, seen.pairs(part[user]))
            rows = QueryRows(
                first + start,
                inputs[model.retrieval.item],
                weights[start : start + size],
                excluded,
            )
            queries = ops.convert_to_numpy(
                ops.stop_gradient(model.query_vectors(inputs))
            )
            scores = {"": queries @ vectors}
            if popular is not None:
                # (N,) to (B, N).
                scores[POPULAR] = np.repeat(popular[None], len(part), axis=0)
            yield rows, scores
        first += len(frame)


def _rows_at_once(retrieval: Retrieval) -> int:
    """As many as neither their scores nor their histories take much memory."""
    rows = rows_at_once(retrieval.num_items)
    if isinstance(retrieval, SequenceRetrieval):
        return max(1, min(rows, _POSITIONS // retrieval.tower.length))
    return rows


def _with_history(
    model: TwoTower,
    inputs: dict[str, np.ndarray],
    pairs: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Adds the items that a sequence tower has read to what is excluded."""
    history = model.retrieval.history
    if history is None:
        return pairs
    rows, places = np.nonzero(inputs[history] > 0)
    items = inputs[history][rows, places]
    return np.append(pairs[0], rows), np.append(pairs[1], items)


def _targets(
    model: TwoTower, counting: Callable[[], _Counting], schema: Schema
) -> UserTargets:
    """The items that each user of a split has, with the first row in time."""
    name = model.retrieval.item
    return UserTargets.of(
        (
            frame[schema.user_id],
            frame[name],
            model.fitted[name].encode(frame[name]),
            times_of(frame, schema),
        )
        for frame, _ in counting()
    )


def popularity(
    model: TwoTower, dataset: AnyDataset, label: str | None
) -> npt.NDArray[np.float64]:
    """Returns how much the rows of the training split with each item count.

    Args:
        model: A model with retrieval.
        dataset: The data set.
        label: The task that says which rows count.

    Returns:
        Float64 array `(N,)`, that of item 1 first.
    """
    name, rows = model.retrieval.item, model.retrieval.num_items + 1
    counts = np.zeros(rows)
    train = dataset.split("train")
    for frame, weights in counting_rows(
        train, dataset.schema, model.tasks, label
    ):
        items = model.fitted[name].encode(frame[name])
        counts += np.bincount(items, weights, minlength=rows)
    return counts[1:]


def seen_items(
    model: TwoTower,
    dataset: AnyDataset,
    label: str | None,
    splits: Sequence[str] = ("train",),
) -> Seen:
    """Returns the items of the rows of some splits that count, by user.

    Args:
        model: A model with retrieval.
        dataset: The data set.
        label: The task that says which rows count.
        splits: Names of the splits; the training split unless given.

    Raises:
        DataError: The data name no user.
    """
    schema = dataset.schema
    user, retrieval = schema.user_id, model.retrieval
    if user is None:
        raise DataError.at(
            schema.place,
            "an id feature that is the 'user' in dataset.json, or is called "
            "user, to exclude what users have seen",
            f"the features {[*schema.features]}",
        )
    item = model.fitted[retrieval.item]
    return Seen.of(
        (frame[user], item.encode(frame[retrieval.item]))
        for split in splits
        for frame, _ in counting_rows(
            dataset.split(split), schema, model.tasks, label
        )
    )
