"""Uses of a baseline's run, as of a trained model's."""

from pathlib import Path

import pandas as pd

from recsys.api.known_rows import warn_if_known
from recsys.baselines import RANKING
from recsys.baselines.baseline_run import BaselineRun
from recsys.baselines.config import read_baseline_config
from recsys.baselines.fitted_retrieval import FittedRetrieval
from recsys.baselines.retrieval_data import RetrievalData
from recsys.data import load
from recsys.data.columns import parse
from recsys.data.items_file import with_titles
from recsys.errors import RunError
from recsys.files.json_files import JsonObject
from recsys.runs.run import Run


def evaluate_baseline(
    run: Path,
    data: str | Path,
    split: str,
    metrics_k: int | None,
    intervals: int | None,
) -> JsonObject:
    """Evaluates a baseline on one split of a data set.

    Args:
        run: Run folder.
        data: As in `evaluate`.
        split: As in `evaluate`.
        metrics_k: As in `evaluate`.
        intervals: As in `evaluate`.
    """
    dataset = load(data, streaming=_streaming(run))
    fitted = BaselineRun.read(run, dataset)
    refitted = "the model" if fitted.config.refit else None
    warn_if_known(Run(run), data, split, refitted)
    k = metrics_k or fitted.config.metrics_k
    return fitted.measure(dataset, split, k, intervals or 0)


def recommend_baseline(
    run: Path,
    user: object,
    top: int,
    data: str | Path | None,
    exclude_seen: bool,
) -> pd.DataFrame:
    """Recommends items to a user by a baseline of retrieval.

    Args:
        run: Run folder.
        user: Id of the user. Whoever is unknown gets what is popular.
        top: How many items to recommend.
        data: As in `recommend`.
        exclude_seen: As in `recommend`.

    Returns:
        A row for each item: its id, its title where the data have titles, and
        its score.

    Raises:
        RunError: The baseline does not retrieve.
    """
    source = (
        read_baseline_config(Run(run).config).data if data is None else data
    )
    dataset = load(source, streaming=_streaming(run))
    fitted = BaselineRun.read(run, dataset)
    model = fitted.model
    if not isinstance(model, FittedRetrieval):
        raise RunError(
            f"{run}: expected a run with retrieval. Received: a run of the "
            f"baseline {fitted.config.model!r}, which has none"
        )
    roles = RetrievalData(dataset, str(fitted.config.retrieval_label))
    row = pd.DataFrame({roles.user: pd.Series([user], dtype=object)})
    kinds = {roles.user: dataset.schema.features[roles.user]}
    (number,) = parse(row, kinds, "`user`")[roles.user]
    table = model.best(number, top, exclude_seen)
    ids = model.interactions.items[table.pop("number")]
    table.insert(0, roles.item, ids)
    return with_titles(table, source, roles.item)


def _streaming(run: Path) -> bool | None:
    """A baseline that ranks has the data in memory."""
    in_memory = read_baseline_config(Run(run).config).model in RANKING
    return False if in_memory else None
