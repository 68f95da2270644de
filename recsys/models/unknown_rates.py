"""How many training rows are trained with an unknown id."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from recsys.config.presets import TABLES
from recsys.config.resolved_config import PARTS
from recsys.config.resolved_config import ResolvedConfig
from recsys.data.load import AnyDataset
from recsys.data.streaming.frames import column_parts
from recsys.data.streaming.split_stream import SplitStream
from recsys.features import Id
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.ranker import Ranker
from recsys.models.two_tower import TwoTower

# Of an id that is never known, nothing is learned.
_MOST = 0.5


def unknown_rates(
    config: ResolvedConfig, model: MultiTaskModel, dataset: AnyDataset
) -> dict[str, float]:
    """Returns how many training rows are to be trained with an unknown id.

    So many that ids are unknown as often as in the validation split, up to a
    half of the rows. The only training row of an id counts as one of an
    unknown id: no other row says anything of it. Where the model's
    `unknown_rate` is enough, no more rows are. Where towers are trained in the
    steps of the tasks, what they are to find stays known.

    Args:
        config: The configuration of its training.
        model: The model.
        dataset: The data set to be trained on.

    Returns:
        By id feature, the share of the rows; empty for a model that sees no
        unknown ids in training (`unknown_rate=0`), or no ids, with a published
        preset, and where no tasks are trained.
    """
    if not (may_have_unknown(config) and isinstance(model, Ranker)):
        return {}
    sought = _sought(config, model)
    return {
        name: _unknown_rate(model, dataset, name)
        for name, kind in model.features.items()
        if isinstance(kind, Id) and name not in sought
    }


def may_have_unknown(config: ResolvedConfig) -> bool:
    """Returns whether rows may be trained as of an unknown id."""
    of_tables = config.preset == TABLES and config.trains_tasks
    return of_tables and config.unknown_rate > 0


def _sought(config: ResolvedConfig, model: Ranker) -> Sequence[str]:
    """What towers are to find that are trained in the steps of the tasks."""
    in_one = config.trains_towers and config.select != PARTS
    if not (in_one and isinstance(model, TwoTower)):
        return []
    return model.retrieval.item_names


def _unknown_rate(model: Ranker, dataset: AnyDataset, name: str) -> float:
    validation = _numbers(model, dataset.split("validation"), name)
    wanted = float((validation == 0).mean()) if len(validation) else 0.0
    if wanted <= model.unknown_rate:
        return 0.0
    train = _numbers(model, dataset.split("train"), name)
    counts = np.bincount(train, minlength=1)
    counts[0] = 1  # Every one of the unknown ids.
    usual = float((counts[train] == 1).mean())
    if wanted <= usual:
        return 0.0
    return min((wanted - usual) / (1 - usual), _MOST)


def _numbers(model: Ranker, split: object, name: str) -> np.ndarray:
    """The numbers of a column's ids, 0 for unknown ones."""
    assert isinstance(split, pd.DataFrame | SplitStream), "of a ranker"
    encode = model.fitted[name].encode
    parts = [encode(part) for part in column_parts(split, name)]
    return np.concatenate([np.zeros(0, np.int32), *parts])
