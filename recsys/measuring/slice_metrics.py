import numpy as np
import numpy.typing as npt

from recsys.config.resolved_config import ResolvedConfig
from recsys.data import Schema
from recsys.files.json_files import JsonObject
from recsys.measuring.cuts import cuts
from recsys.measuring.measuring import Measuring
from recsys.measuring.scored_sample import ScoredSample
from recsys.models.ranker import Ranker

_LISTS = ("ids", "sequence", "vector")
# Of a feature whose values have a cut each: more are users, say, or items, of
# which single ones are noise, and nobody's business.
_MOST_IDS = 100
_NOT_KNOWN = ("unknown", "missing")


def slice_metrics(
    ranker: Ranker,
    config: ResolvedConfig,
    schema: Schema,
    sample: ScoredSample,
) -> JsonObject:
    """Measures a model in the cuts of each feature with one value per row.

    Args:
        ranker: The model.
        config: The configuration of its run.
        schema: Columns of the data.
        sample: Rows that the model has scored.

    Returns:
        By feature and the name of a cut, the metrics as `measure` has them.
        A feature with more than 100 known ids has the cuts "known", "unknown"
        and "missing" alone.
    """
    rows = sample.rows
    measuring = Measuring.of(ranker, config, schema)
    slices = {}
    for name, kind in ranker.features.items():
        if kind.type in _LISTS:
            continue
        vocabulary = ranker.fitted[name].vocabulary
        encode = None if vocabulary is None else vocabulary.encode
        parts = cuts(name, rows[name], encode)
        if vocabulary is not None and vocabulary.size > _MOST_IDS:
            parts = _by_knowledge(parts, len(rows))
        slices[name] = measuring.by_cut(sample.scores, rows, parts)
    return slices


def _by_knowledge(
    parts: dict[str, npt.NDArray[np.bool_]], rows: int
) -> dict[str, npt.NDArray[np.bool_]]:
    """Cuts by whether an id is known, those of known ids together."""
    kept = {cut: parts[cut] for cut in _NOT_KNOWN if cut in parts}
    known = ~np.logical_or.reduce([np.zeros(rows, bool), *kept.values()])
    return ({"known": known} if known.any() else {}) | kept
