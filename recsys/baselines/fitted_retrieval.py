from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from recsys.baselines.array_folder import ArrayFolder
from recsys.baselines.interactions import Interactions
from recsys.baselines.interactions import Queries
from recsys.baselines.retrieval_baseline import RetrievalBaseline
from recsys.errors import FileError
from recsys.errors.reading import reading
from recsys.features.id_positions import id_positions
from recsys.files.json_files import JsonObject
from recsys.measuring.retrieval_metrics import POPULAR
from recsys.measuring.retrieval_metrics import QueryRows
from recsys.measuring.retrieval_metrics import Scored
from recsys.measuring.retrieval_metrics import retrieval_metrics
from recsys.measuring.retrieval_metrics import rows_at_once
from recsys.retrieval.seen import Seen
from recsys.retrieval.user_targets import UserTargets


@dataclass(frozen=True, eq=False)
class FittedRetrieval:
    """A baseline with who has had what where it was fitted.

    Attributes:
        model: The baseline.
        interactions: What it was fitted on.
    """

    model: RetrievalBaseline
    interactions: Interactions

    def scores(self, users: np.ndarray) -> np.ndarray:
        """Returns what items are ranked by, a new float array `(B, N)`.

        Whoever is unknown gets what is popular.

        Args:
            users: Rows of the interactions' matrix, integers `(B,)`.
        """
        known = users < self.interactions.num_users
        histories = self.interactions.matrix[users[known]]
        known_scores = self.model.scores(users[known], histories)
        if known.all():
            return known_scores
        scores = np.repeat(self.interactions.counts[None], len(users), axis=0)
        scores[known] = known_scores
        return scores

    def measure(
        self,
        queries: Queries,
        k: int,
        seen: Seen | None,
        keep_targets: bool = True,
        beside: Sequence[str] = (POPULAR,),
    ) -> JsonObject:
        """Returns what `retrieval_metrics` says of the model.

        Args:
            queries: The rows of a split that count.
            k: How many items are retrieved.
            seen: What users have had, which is no candidate; `None` where all
                items are.
            keep_targets: As for `RetrievalMetrics`.
            beside: What is measured beside it, `POPULAR` or nothing.
        """
        users, ids = queries.users, queries.items
        numbers = id_positions(ids, self.interactions.items) + 1
        targets = UserTargets.of([(users, ids, numbers, None)])
        blocks = self._blocks(queries, numbers, seen, beside)
        return retrieval_metrics(
            blocks,
            k,
            targets,
            self.interactions.num_items,
            beside,
            keep_targets,
        )

    def _blocks(
        self,
        queries: Queries,
        numbers: np.ndarray,
        seen: Seen | None,
        beside: Sequence[str],
    ) -> Iterator[Scored]:
        codes = self.interactions.codes(queries.users)
        size = rows_at_once(self.interactions.num_items)
        # In the order of the counts, in half their bytes.
        popular = np.unique(self.interactions.counts, return_inverse=True)[1]
        popular = popular.astype(np.float32)
        for start in range(0, len(codes), size):
            part = slice(start, start + size)
            # A user's rows stand together, and are scored once.
            users, places = np.unique(codes[part], return_inverse=True)
            excluded = None
            if seen is not None:
                excluded = seen.pairs(queries.users[part])
            rows_of_block = QueryRows(
                start, numbers[part], queries.weights[part], excluded
            )
            scores = {"": self.scores(users)[places]}
            if POPULAR in beside:
                scores[POPULAR] = np.repeat(popular[None], len(places), axis=0)
            yield rows_of_block, scores

    def best(self, user: object, top: int, exclude_seen: bool) -> pd.DataFrame:
        """Returns the items of the highest scores, the best first.

        Of items with the same score, the first in the order of their ids.

        Args:
            user: Id of the user.
            top: How many items, at most.
            exclude_seen: Whether to leave out what the user has had.

        Returns:
            A row for each item, its number, counted from 0, in `"number"` and
            its `"score"`.
        """
        codes = self.interactions.codes(pd.Series([user], dtype=object))
        scores = self.scores(codes)[0].astype(np.float64)
        order = np.argsort(-scores, kind="stable")
        if exclude_seen:
            had = self.interactions.matrix[codes].indices
            order = order[~np.isin(order, had)]
        best = order[:top]
        return pd.DataFrame({"number": best, "score": scores[best]})


def write_retrieval(fitted: FittedRetrieval, folder: Path) -> None:
    """Writes a baseline with what it was fitted on.

    Args:
        fitted: It.
        folder: The folder to write to.
    """
    files, interactions = ArrayFolder(folder), fitted.interactions
    arrays = fitted.model.arrays
    files.write({f"model_{name}": array for name, array in arrays.items()})
    files.write_ids("users", interactions.users)
    files.write_ids("items", interactions.items)
    files.write(
        {
            "history_starts": interactions.matrix.indptr,
            "history_items": interactions.matrix.indices,
            "counts": interactions.counts,
        }
    )


def read_retrieval(
    kind: type[RetrievalBaseline], folder: Path
) -> FittedRetrieval:
    """Reads what `write_retrieval` has written.

    Args:
        kind: The class of the baseline.
        folder: The folder.

    Raises:
        FileError: A file is missing or broken.
    """
    files = ArrayFolder(folder)
    users, items = files.read_ids("users"), files.read_ids("items")
    starts = files.read("history_starts", len(users) + 2)
    history_items = files.read("history_items", None)
    counts = np.array(files.read("counts", len(items)))
    file = folder / "history_items.npy"
    with reading(file, "the items of the users"):
        matrix = csr_array(
            (np.ones(len(history_items), np.float32), history_items, starts),
            shape=(len(users) + 1, len(items)),
        )
        matrix.check_format(full_check=True)
        arrays = {
            name: files.read(f"model_{name}", *shape)
            for name, shape in kind.shapes(len(users), len(items)).items()
        }
    if matrix.indptr[-1] != len(history_items):
        raise FileError.at(
            file, f"{int(matrix.indptr[-1]):,} items", f"{len(history_items):,}"
        )
    interactions = Interactions(users, items, matrix, counts)
    return FittedRetrieval(kind(**arrays), interactions)
