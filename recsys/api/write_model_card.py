from pathlib import Path

from recsys.data import Dataset
from recsys.files.json_files import JsonObject
from recsys.files.json_files import read_json
from recsys.measuring.scored_sample import ScoredSample
from recsys.measuring.slice_metrics import slice_metrics
from recsys.models.ranker import Ranker
from recsys.reporting.model_card import model_card
from recsys.runs.run import Run

MODEL_CARD = "model_card.md"
# Of the test split: an export should not take much longer.
MOST_ROWS = 20_000


def write_model_card(
    run: Run,
    ranker: Ranker,
    dataset: Dataset | None,
    folder: Path,
    sample: ScoredSample | None = None,
) -> None:
    """Writes `MODEL_CARD` beside an export.

    Args:
        run: The run; without a configuration and metrics, nothing is written.
        ranker: Its model.
        dataset: Its data, whose test split the metrics by slice are measured
            on, up to 20,000 rows of it; `None` where they are not in place.
        folder: Folder of the export.
        sample: What the ranker says about those rows, where it is known.
            Defaults to `None`: it is run on them.
    """
    if not (run.config.is_file() and run.metrics.is_file()):
        return
    config, metrics = run.read_config(), run.read_metrics()
    slices: JsonObject = {}
    name = Path(config.data).name
    if dataset is not None:
        name = dataset.schema.name
    if dataset is not None and ranker.has_trained_tasks:
        sample = sample or scored_for_card(ranker, dataset)
        slices = slice_metrics(ranker, config, dataset.schema, sample)
    versions = read_json(run.config).get("versions", {})
    text = model_card(name, ranker, config, metrics, slices, versions)
    (folder / MODEL_CARD).write_text(text, encoding="utf-8")


def scored_for_card(ranker: Ranker, dataset: Dataset) -> ScoredSample:
    """Returns up to 20,000 rows of the test split, scored by a model.

    Args:
        ranker: The model.
        dataset: Data that fit it.
    """
    return ScoredSample.of(ranker, dataset, "test", MOST_ROWS)
