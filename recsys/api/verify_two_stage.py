import sys
import tempfile
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd

from recsys.api.recommend import ranked
from recsys.api.recommend import retrieved
from recsys.errors import ExportError
from recsys.exporting.item_index import index_inside
from recsys.exporting.served_ranker import EXPERTS
from recsys.exporting.served_ranker import outputs_of
from recsys.exporting.text_arrays import packed
from recsys.exporting.text_arrays import unpacked
from recsys.exporting.two_stage import TwoStage
from recsys.exporting.two_stage_model import ITEM
from recsys.exporting.two_stage_model import SCORE
from recsys.exporting.verification import last_line
from recsys.models.compact_rows import FLOAT32
from recsys.models.compact_rows import CompactRows
from recsys.processes.lifeline import run_alongside
from recsys.retrieval.rerank.diverse_rows import is_diverse
from recsys.serving.formats import DEFAULT_FORMAT
from recsys.serving.formats import known_format
from recsys.serving.two_stage_runner import BRUTE_FORCE
from recsys.serving.two_stage_runner import SEEN
from recsys.serving.two_stage_runner import TFRS

TOLERANCE = 1e-4  # Relative to 1 and the value: scores are any formula.
_SAMPLED_ROWS = 12
_MOST_SEEN = 6


def verify_two_stage(
    model: TwoStage, folder: Path, format: str = DEFAULT_FORMAT
) -> None:
    """Checks that an exported model recommends what the live model does.

    Its scores have to be those of the best items, one after the other, and
    its predictions those of the items that it names.

    Args:
        model: What was written.
        folder: Where.
        format: What it was written as, a name among `FORMATS`.

    Raises:
        ExportError: It does not, or cannot be loaded without Keras.
    """
    rows, seen = _sample(model)
    queries = [
        _Query(model, rows.iloc[[row]], had) for row, had in enumerate(seen)
    ]
    # What goes with an index of faiss answers without it, too.
    indexes = list(dict.fromkeys([index_inside(model.index), model.index]))
    outputs = _outputs(model, folder, format, rows, seen, indexes)
    title = known_format(format).title
    for index in indexes:
        _verify(queries, outputs[index], index, title)


def _verify(
    queries: "Sequence[_Query]",
    outputs: Mapping[str, np.ndarray],
    index: str,
    title: str,
) -> None:
    sizes = {name.rsplit("/", 1)[1] for name in outputs}
    for size in sorted(sizes, key=int):
        received = {
            name.rsplit("/", 1)[0]: values
            for name, values in outputs.items()
            if name.rsplit("/", 1)[1] == size
        }
        for row in range(len(received[SCORE])):
            problem = _problem(
                queries[row],
                {name: values[row] for name, values in received.items()},
                index,
            )
            if problem:
                raise ExportError(
                    f"The {title} must recommend the same as the model. "
                    f"Received, with the index {index} at batch size {size}: "
                    f"{problem}"
                )


def _sample(model: TwoStage) -> tuple[pd.DataFrame, list[np.ndarray]]:
    """Rows of queries, and the numbers of what each has seen."""
    generator, ranker = np.random.default_rng(0), model.ranker
    rows = pd.DataFrame(
        {
            name: ranker.fitted[name].sample(generator, _SAMPLED_ROWS)
            for name in ranker.query_names
        }
    )
    seen = []
    for row in range(len(rows)):
        best = retrieved(
            ranker,
            _encoded(model, rows.iloc[[row]]),
            np.zeros(0, np.int32),
            _MOST_SEEN,
        )
        seen.append(best[: row % (len(best) + 1)])
    return rows, seen


def _encoded(model: TwoStage, rows: pd.DataFrame) -> dict[str, np.ndarray]:
    fitted = model.ranker.fitted
    return {
        name: fitted[name].encode(rows[name])
        for name in model.ranker.query_names
    }


def _outputs(
    model: TwoStage,
    folder: Path,
    format: str,
    rows: pd.DataFrame,
    seen: list[np.ndarray],
    indexes: Sequence[str],
) -> dict[str, dict[str, np.ndarray]]:
    """Outputs of the exported model, by index, in a process without Keras."""
    ranker = model.ranker
    item = ranker.fitted[ranker.retrieval.item]
    values = ranker.vocabularies[ranker.retrieval.item].values
    kind: type = object if item.raw_dtype == "string" else np.int64
    lists = np.full((len(rows), _MOST_SEEN), item.raw_missing().item(), object)
    for row, numbers in enumerate(seen):
        lists[row, : len(numbers)] = values[numbers - 1]
    arrays = {
        input: ranker.fitted[name].raw(rows[name])
        for name, input in model.inputs.items()
    }
    arrays[SEEN] = lists.astype(kind)
    with tempfile.TemporaryDirectory() as scratch:
        inputs = Path(scratch, "in.npz")
        np.savez(inputs, **{name: packed(arrays[name]) for name in arrays})
        outputs = {index: Path(scratch, f"{index}.npz") for index in indexes}
        module = "recsys.exporting.two_stage_process"
        words = [sys.executable, "-m", module, format]
        words += [str(folder), str(inputs)]
        for index, file in outputs.items():
            words += [index, str(file)]
        process = run_alongside(words)
        if process.returncode:
            raise ExportError(
                f"The {known_format(format).title} must run without Keras. "
                f"Received: {last_line(process.stderr)}"
            )
        return {index: _unpacked(file) for index, file in outputs.items()}


def _unpacked(file: Path) -> dict[str, np.ndarray]:
    with np.load(file) as archive:
        return {name: unpacked(archive[name]) for name in archive}


@dataclass(frozen=True, eq=False)
class _Query:
    """What the live model recommends for one query.

    Each index and batch size is compared with the same.

    Args:
        model: What was written.
        row: The features of the query.
        seen: Numbers of the items that are not to be recommended.
    """

    model: TwoStage
    row: pd.DataFrame
    seen: np.ndarray
    _tables: dict[bytes, pd.DataFrame] = field(default_factory=dict)
    _weights: dict[bytes, dict[str, np.ndarray]] = field(default_factory=dict)

    def ranked(self, numbers: np.ndarray) -> pd.DataFrame:
        """Returns what `recsys.recommend` says of items, the best first."""
        key = numbers.tobytes()
        if key not in self._tables:
            self._tables[key] = ranked(
                self.model.ranker,
                self._encoded,
                numbers,
                self.model.formula,
            )
        return self._tables[key]

    @cached_property
    def best(self) -> np.ndarray:
        """The numbers of the items that are retrieved."""
        return retrieved(
            self.model.ranker,
            self._encoded,
            self.seen,
            self.model.candidates,
        )

    def reranking_problem(self, numbers: np.ndarray) -> str | None:
        """Returns what is wrong with a list that was made diverse.

        Args:
            numbers: Numbers of its items, in order.
        """
        model, table = self.model, self.ranked(self.best)
        retrieval = model.ranker.retrieval
        encode = model.ranker.fitted[retrieval.item].encode
        candidates = encode(table[retrieval.item])
        vectors = retrieval.vectors[candidates - 1]
        if model.tables != FLOAT32:
            vectors = CompactRows.of(vectors, model.tables).floats()
        is_right = is_diverse(
            table,
            vectors,
            [*map({n: i for i, n in enumerate(candidates)}.get, numbers)],
            str(model.rerank),
            model.diversity,
            model.top,
        )
        return None if is_right else f"other items than those of {model.rerank}"

    def expert_weights(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the weights of experts for items, `(items, n)` by output."""
        key = numbers.tobytes()
        if key not in self._weights:
            self._weights[key] = self._weights_of(numbers)
        return self._weights[key]

    def _weights_of(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        ranker = self.model.ranker
        rows = {
            name: np.repeat(values, len(numbers), axis=0)
            for name, values in self._encoded.items()
        } | ranker.retrieval.items(numbers)
        encoded = {
            name: keras.ops.convert_to_tensor(values)
            for name, values in rows.items()
        }
        outputs = outputs_of(ranker, encoded, expert_weights=True)
        return {
            task + EXPERTS: keras.ops.convert_to_numpy(outputs[task + EXPERTS])
            for task in ranker.tasks
        }

    @cached_property
    def _encoded(self) -> dict[str, np.ndarray]:
        return _encoded(self.model, self.row)


def _problem(
    query: _Query, received: Mapping[str, np.ndarray], index: str
) -> str | None:
    """Errors in the recommendations for one query."""
    model, seen = query.model, query.seen
    ranker, retrieval = model.ranker, model.ranker.retrieval
    ids = pd.Series(received[ITEM])
    numbers = ranker.fitted[retrieval.item].encode(ids)
    there = numbers > 0
    numbers = numbers[there]
    if np.isin(numbers, seen).any():
        return "an item that has been seen"
    if len(set(numbers)) < len(numbers):
        return "an item twice"
    by_id = query.ranked(numbers).set_index(retrieval.item)
    in_order = by_id.loc[ids[there]]
    experts = {task + EXPERTS for task in ranker.tasks if model.expert_weights}
    weights = query.expert_weights(numbers) if experts and len(numbers) else {}
    for name, values in weights.items():
        if not _close(received[name][there], values):
            return f"other weights of {name!r}"
    for name in received.keys() - {ITEM, SCORE} - experts:
        if not _close(received[name][there], in_order[name]):
            return f"other predictions of {name!r}"
    scores = received[SCORE][there]
    if not _close(scores, in_order["score"].to_numpy()):
        return "other scores"
    if index not in (BRUTE_FORCE, TFRS):
        return None  # Which items it finds is up to it.
    if model.rerank is not None:
        return query.reranking_problem(numbers)
    wanted = query.ranked(query.best)["score"].to_numpy()[: model.top]
    if len(scores) != len(wanted) or not _close(scores, wanted):
        return "other items than the best"
    return None


def _close(received: np.ndarray, wanted: np.ndarray | pd.Series) -> bool:
    """Returns whether scores or predictions agree, with equal non-finites."""
    numbers: Any = np.asarray(wanted, np.float64)
    wanted = np.where(np.isnan(numbers), np.finfo(np.float32).min, numbers)
    return bool(np.allclose(received, wanted, rtol=TOLERANCE, atol=TOLERANCE))
