"""What is written beside an export for people to read."""

from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recsys.api.write_model_card import scored_for_card
from recsys.api.write_model_card import write_model_card
from recsys.data import DataError
from recsys.data import Dataset
from recsys.data import load
from recsys.data.streaming.streamed_dataset import is_large
from recsys.files.json_files import JsonObject
from recsys.measuring.calibration_bands import calibration_bands
from recsys.models.ranker import Ranker
from recsys.runs.run import Run
from recsys.serving.page_facts import write_page_facts


def write_descriptions(
    run: Run,
    ranker: Ranker,
    examples: Mapping[str, Sequence[Any]],
    folder: Path,
) -> None:
    """Writes the model card, and what a server's page shows.

    Slices and calibration are measured on up to 20,000 rows of the test split,
    if the run's data are in place and small enough to be held in memory.

    Args:
        run: The run.
        ranker: Its model.
        examples: By input, values to begin with.
        folder: Folder of the export.
    """
    dataset = _data_in_place(run, ranker)
    sample = None if dataset is None else scored_for_card(ranker, dataset)
    write_model_card(run, ranker, dataset, folder, sample)
    bands: JsonObject = {}
    if sample is not None:
        bands = calibration_bands(ranker, sample)
    write_page_facts(folder, bands, examples)


def _data_in_place(run: Run, ranker: Ranker) -> Dataset | None:
    if not run.config.is_file():
        return None
    config = run.read_config()
    if config.data != "synthetic" and not Path(config.data).is_dir():
        return None
    try:
        if is_large(config.data):
            return None
        dataset = load(config.data, config.seed, streaming=False)
        ranker.check_fits(dataset)
    except DataError:  # Other data have taken their place.
        return None
    return dataset if isinstance(dataset, Dataset) else None
