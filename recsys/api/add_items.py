import shutil
from dataclasses import replace
from pathlib import Path

from recsys.data import load
from recsys.data.columns import parse
from recsys.data.formats.table import read_table
from recsys.errors import DataError
from recsys.errors import RunError
from recsys.files.atomic import replacing
from recsys.files.folders import check_no_links
from recsys.files.json_files import JsonObject
from recsys.files.output_lock import sole_writer
from recsys.measuring.outcome import write_outcome
from recsys.models.more_items import with_more_items
from recsys.runs.run import Run
from recsys.terminal.progress import announce
from recsys.training.callbacks.retrieval_index import update_index


def add_items(
    run: str | Path, items: str | Path, out: str | Path
) -> JsonObject:
    """Lets a trained model recommend items that its training did not have.

    They are told apart by their features, such as categories, or vectors of
    their texts or images; of themselves they are unknown ids.

    Args:
        run: Run folder, with retrieval.
        items: A table with a row for each item: `.parquet`, `.csv`, `.tsv` or
            one of the texts with `.gz`. It has a column for the id and for
            each further feature of the item, as in the training data. Other
            columns, and items that the model knows, are passed over.
        out: A new or empty folder, which becomes a run with all items.

    Returns:
        The content of the `metrics.json` of the new run: a test row with a new
        item is one whose target can be found.

    Raises:
        DataError: The table is missing, a column or a value is missing or
            wrong, or no item is new.
        FileError: A file of the run is broken.
        RunError: There is no finished run with retrieval in the folder, or
            `out` is not empty.
        ValueError: The gates of the run route by the item.
    """
    source, result = Run(run), Run(out)
    ranker = source.load_two_tower()
    if not source.is_finished:
        raise RunError(
            f"{source.folder}: expected a finished run. "
            "Received: one without metrics of the test split"
        )
    retrieval = ranker.retrieval
    kinds = {name: ranker.features[name] for name in retrieval.item_names}
    table = parse(read_table(items), kinds, items)
    model = with_more_items(ranker, table, items)
    count = model.retrieval.num_items - retrieval.num_items
    if not count:
        raise DataError.at(items, "an item that the run does not know", "none")
    with sole_writer(out):
        check_no_links(out)
        result.check_empty()
        announce(f"Adding {count:,} items to {retrieval.num_items:,}")
        update_index(model)
        config = source.read_config()
        dataset = load(config.data, streaming=config.streaming)
        splits, before = ["validation", "test"], None
        if config.finds_by_validation:
            dataset = dataset.with_validation_in_training()
            splits = ["test"]
            before = {"validation": source.read_metrics()["validation"]}
        with replacing(result.folder) as unfinished:
            unfinished.mkdir()
            grown = Run(unfinished)
            shutil.copyfile(source.data, grown.data)
            grown.write_config(replace(config, out=str(result.folder)))
            grown.save_model(model)
            return write_outcome(grown, config, dataset, splits, before)
