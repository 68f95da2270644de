from pathlib import Path

from recsys.data import DataError
from recsys.data import Dataset
from recsys.data import load
from recsys.data.streaming.streamed_dataset import is_large
from recsys.files.json_files import JsonObject
from recsys.files.json_files import read_json
from recsys.measuring.slice_metrics import slice_metrics
from recsys.models.ranker import Ranker
from recsys.reporting.model_card import model_card
from recsys.runs.run import Run

MODEL_CARD = "model_card.md"
# Of the test split, for the slices: an export should not take much longer.
_MOST_ROWS = 20_000


def write_model_card(run: Run, ranker: Ranker, folder: Path) -> None:
    """Writes `MODEL_CARD` beside an export.

    Metrics by slice are measured on up to 20,000 rows of the test split, if
    the run's data are in place and small enough to be held in memory.

    Args:
        run: The run; without a configuration and metrics, nothing is written.
        ranker: Its model.
        folder: Folder of the export.
    """
    if not (run.config.is_file() and run.metrics.is_file()):
        return
    config, metrics = run.read_config(), run.read_metrics()
    slices: JsonObject = {}
    name = Path(config.data).name
    dataset = _dataset(config.data, config.seed)
    if dataset is not None:
        name = dataset.schema.name
        slices = slice_metrics(ranker, config, dataset, "test", _MOST_ROWS)
    versions = read_json(run.config).get("versions", {})
    text = model_card(name, ranker, config, metrics, slices, versions)
    (folder / MODEL_CARD).write_text(text, encoding="utf-8")


def _dataset(source: str, seed: int) -> Dataset | None:
    """The data of the run, where they are in place and small."""
    if source != "synthetic" and not Path(source).is_dir():
        return None
    try:
        if is_large(source):
            return None
        dataset = load(source, seed, streaming=False)
    except DataError:  # Other data have taken their place.
        return None
    return dataset if isinstance(dataset, Dataset) else None
