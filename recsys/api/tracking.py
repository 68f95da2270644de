from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from recsys.api.write_model_card import MODEL_CARD
from recsys.api.write_model_card import write_model_card
from recsys.config.resolved_config import ResolvedConfig
from recsys.data import Dataset
from recsys.data.load import AnyDataset
from recsys.models.ranker import Ranker
from recsys.runs.run import Run
from recsys.training.tracking.tracked_run import TrackedRun


@contextmanager
def tracking(
    run: Run, config: ResolvedConfig, dataset: AnyDataset
) -> Iterator[TrackedRun | None]:
    """Tracks a training within the context, and closes its run afterwards.

    A training that ends has its metrics and files logged, with a model card
    of a model on tables; one that raises is closed as failed.

    Args:
        run: The run.
        config: Its configuration, resolved.
        dataset: Its data; of those in memory, the card has metrics by slice.

    Yields:
        `None` where nothing is tracked.
    """
    tracked = TrackedRun.open(run, config)
    try:
        yield tracked
    except BaseException:
        if tracked is not None:
            tracked.fail()
        raise
    if tracked is None:
        return
    with TemporaryDirectory() as folder:
        card = Path(folder) / MODEL_CARD
        model = run.load_model()
        if isinstance(model, Ranker):
            held = dataset if isinstance(dataset, Dataset) else None
            write_model_card(run, model, held, card.parent)
        tracked.finish(run.read_metrics(), [card] if card.is_file() else [])
