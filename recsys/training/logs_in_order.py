from recsys.data import Dataset
from recsys.data.load import AnyDataset
from recsys.data.order_of_splits import come_later
from recsys.data.streaming.streamed_dataset import StreamedDataset
from recsys.models.tower import has_history
from recsys.retrieval.counting_rows import ALL_ROWS
from recsys.retrieval.losses.full_softmax import MOST_ITEMS

# Ten epochs of a transformer take two hours on a core.
MOST_ROWS = 5_000_000


def is_log_in_order(dataset: AnyDataset, label: str | None) -> bool:
    """Whether a transformer is the better choice for a data set's retrieval.

    It predicts the next item of a user, and so finds what comes next; of items
    that are drawn from the midst of what a user has had, two towers find twice
    as much. `benchmarks/README.md`, "Sequence towers", compares them.

    Args:
        dataset: The data set to be trained on.
        label: Binary task that selects the rows of retrieval, or "all".

    Returns:
        Whether the data have histories of the item, users, and times, by which
        most validation rows come after all training rows of their users; some
        user has two training rows that count, and there are at most 50,000
        items in 5,000,000 training rows.
    """
    schema = dataset.schema
    user, time, item = schema.user_id, schema.time, schema.item_id
    if not has_history(schema) or user is None or time is None or item is None:
        return False
    assert isinstance(dataset, Dataset | StreamedDataset), "of tables"
    train, validation = dataset.split("train"), dataset.split("validation")
    if len(train) > MOST_ROWS:
        return False
    counting = [] if label in (None, ALL_ROWS) else [str(label)]
    rows = train[[*{user, item, time, *counting}]]
    for task in counting:
        rows = rows[rows[task] == 1]
    has_sequences = rows[user].dropna().duplicated().any()
    if not has_sequences or rows[item].nunique() > MOST_ITEMS:
        return False
    return come_later(rows, validation[[user, time]], user, time)
