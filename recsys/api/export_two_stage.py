import os
import sys
import tempfile
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd

from recsys.api.compact_export import TABLES_FILE
from recsys.api.compact_export import check_tables
from recsys.api.compact_export import compacted
from recsys.api.export_descriptions import write_descriptions
from recsys.api.recommend import CANDIDATES
from recsys.api.recommend import ranked
from recsys.api.recommend import retrieved
from recsys.api.recommend import score_formula
from recsys.errors import ExportError
from recsys.errors.bounds import check_count
from recsys.exporting.class_names import class_names
from recsys.exporting.examples import examples
from recsys.exporting.input_names import INPUTS_FILE
from recsys.exporting.known_ids import known_ids
from recsys.exporting.served_ranker import EXPERTS
from recsys.exporting.served_ranker import outputs_of
from recsys.exporting.text_arrays import packed
from recsys.exporting.text_arrays import unpacked
from recsys.exporting.two_stage import TwoStage
from recsys.exporting.two_stage_index import RECALL
from recsys.exporting.two_stage_index import write_index
from recsys.exporting.two_stage_model import INDEXES
from recsys.exporting.two_stage_model import ITEM
from recsys.exporting.two_stage_model import LEGACY_INDEXES
from recsys.exporting.two_stage_model import SCORE
from recsys.exporting.two_stage_model import index_inside
from recsys.exporting.verification import last_line
from recsys.exporting.versions import check_vacant
from recsys.exporting.versions import write_model
from recsys.files.atomic import replacing
from recsys.files.json_files import JsonObject
from recsys.files.json_files import write_json
from recsys.files.output_lock import sole_writer
from recsys.models.compact_rows import FLOAT32
from recsys.models.compact_rows import CompactRows
from recsys.processes.lifeline import run_alongside
from recsys.retrieval.rerank import DIVERSITY
from recsys.retrieval.rerank import check_rerank
from recsys.retrieval.rerank.diverse_rows import is_diverse
from recsys.runs.run import Run
from recsys.serving.import_faiss import import_faiss
from recsys.serving.index_file import FAISS_INDEXES
from recsys.serving.list_lengths import write_list_lengths
from recsys.serving.monitoring.known_ids import write_known_ids
from recsys.serving.task_classes import write_classes
from recsys.serving.two_stage_runner import BRUTE_FORCE
from recsys.serving.two_stage_runner import SEEN
from recsys.serving.two_stage_runner import TFRS
from recsys.serving.two_stage_runner import TWO_STAGE_FILE

TOLERANCE = 1e-4  # Relative to 1 and the value: scores are any formula.
LEGACY_KERAS = "TF_USE_LEGACY_KERAS"
_RECOMMENDERS = "tensorflow_recommenders"
_SAMPLED_ROWS = 12
_MOST_SEEN = 6


def export_two_stage(
    run: str | Path,
    out: str | Path,
    score: str | None = None,
    top: int = 10,
    candidates: int = CANDIDATES,
    index: str = BRUTE_FORCE,
    recall: float = RECALL,
    version: bool = True,
    tables: str = FLOAT32,
    rerank: str | None = None,
    diversity: float = DIVERSITY,
    *,
    expert_weights: bool = False,
) -> Path:
    """Exports retrieval and ranking as one TensorFlow SavedModel.

    `recsys.exporting.two_stage.TwoStage` says what it takes and returns. What
    was written is loaded in a fresh process that cannot import Keras, and has
    to recommend there what `recsys.recommend` would. A process of its own does
    all this where this one is not under TensorFlow, and for an index of
    TensorFlow Recommenders, which needs `TF_USE_LEGACY_KERAS=1` as well.

    Args:
        run: Folder of a run with retrieval, trained under any backend.
        out: Folder of the versions of the model, as in `recsys.export`.
        score: What items are ranked by, as in `recsys.recommend`.
        top: How many items it recommends, of which there may be no more.
            Defaults to 10.
        candidates: How many items are ranked, at least `top`. Defaults to 100.
        index: `"brute-force"` (default), or an approximate one: `"hnsw"` and
            `"ivf"`, of faiss, which `recsys serve` searches while the model
            itself has brute force. Of TensorFlow Recommenders, in the model:
            `"tfrs"`, its brute force, and `"scann"`, which is approximate.
        recall: The share of the best candidates that an index of faiss has to
            find, which decides how hard it looks. Defaults to 0.99.
        version: Whether to number the model; otherwise it is written to `out`
            itself, which has to be new or empty. Defaults to `True`.
        tables: How tables are stored, as in `recsys.export`, and the items'
            vectors that the model searches by itself; those of the other
            indexes are float32. Free vectors of the query's id are stored so,
            too, and the tables of a sequence tower are not.
        rerank: What makes the items of a list differ from each other, as in
            `recsys.recommend`: `"mmr"` or `"dpp"`, in the model. None unless
            given.
        diversity: How much that counts, from 0 to 1; without `rerank` it has
            no effect. Defaults to 0.3.
        expert_weights: Whether the model also returns, as `"<task>/experts"`,
            how much each expert weighs for each item. Defaults to `False`.

    Returns:
        The folder of the model. `assets.extra/two_stage.json` in it has what
        it was exported with, `assets.extra/inputs.json` the input of each
        feature.

    Raises:
        ExportError: What was written does not recommend what the model does,
            or the index cannot be made or does not find `recall`; nothing of
            it is left.
        ModuleNotFoundError: The package of the index is not there.
        RunError: There is no trained run with retrieval in the folder, or
            `out` holds something else, or another process is writing to it.
        ValueError: The score is no formula, a number is less than 1, `top` is
            above `candidates`, `recall` no share above 0, there is no
            such index or reranking, or tables cannot be stored so.
    """
    check_tables(tables)
    check_rerank(rerank, diversity)
    check_count("top", top)
    check_count("candidates", candidates)
    if top > candidates:
        raise ValueError(
            "`top` must be at most the number of candidates, "
            f"{candidates}. Received: top={top}"
        )
    if index not in INDEXES:
        raise ValueError(
            f"`index` must be one of {', '.join(INDEXES)}. "
            f"Received: index={index!r}"
        )
    if not 0 < recall <= 1:
        raise ValueError(
            f"`recall` must be above 0 and at most 1. Received: recall={recall}"
        )
    if index in FAISS_INDEXES:
        import_faiss()  # Rather now than at the end.
    if index in LEGACY_INDEXES and find_spec(_RECOMMENDERS) is None:
        raise ModuleNotFoundError(
            f"`index={index!r}` needs the package tensorflow-recommenders",
            name=_RECOMMENDERS,
        )
    source = Run(run)
    source.check_model()
    options: JsonObject = {
        "score": score,
        "top": top,
        "candidates": candidates,
        "index": index,
        "recall": recall,
        "tables": tables,
        "rerank": rerank,
        "diversity": None if rerank is None else diversity,
        "expert-weights": expert_weights,
    }
    return write_model(
        out, version, lambda folder: _write(source, folder, options)
    )


def _write(run: Run, folder: Path, options: JsonObject) -> None:
    if not _is_prepared(options["index"]):
        _export_elsewhere(run, folder, options)
        return
    with sole_writer(folder):
        check_vacant(folder)
        _export(run, folder, options)


def _is_prepared(index: str) -> bool:
    """Returns whether this process can write a model with such an index."""
    legacy = os.environ.get(LEGACY_KERAS) == "1"
    is_tensorflow = keras.backend.backend() == "tensorflow"
    return is_tensorflow and (legacy or index not in LEGACY_INDEXES)


def _export_elsewhere(run: Run, folder: Path, options: JsonObject) -> None:
    words = [
        *(sys.executable, "-m", "recsys.child_process", "export"),
        *("--run", str(run.folder), "--out", str(folder)),
        *("--two-stage", "--no-version"),
    ]
    for name, value in options.items():
        if value is True:
            words.append(f"--{name}")
        elif value is not None and value is not False:
            words += [f"--{name}", str(value)]
    environment = {"KERAS_BACKEND": "tensorflow"}
    if options["index"] in LEGACY_INDEXES:
        environment[LEGACY_KERAS] = "1"
    process = run_alongside(words, env={**os.environ, **environment})
    if process.returncode:
        kind = ValueError if process.returncode == 2 else ExportError
        raise kind(last_line(process.stderr))


def _export(run: Run, folder: Path, options: JsonObject) -> None:
    ranker, tables = run.load_two_tower(), options["tables"]
    cost = None
    if tables != FLOAT32:
        cost = compacted(run, ranker, tables, options["index"])
    formula = score_formula(ranker, options["score"])
    model = TwoStage(
        ranker,
        formula,
        options["top"],
        options["candidates"],
        options["index"],
        tables if index_inside(options["index"]) == BRUTE_FORCE else FLOAT32,
        options["rerank"],
        DIVERSITY if options["rerank"] is None else options["diversity"],
        expert_weights=options["expert-weights"],
    )
    with replacing(folder) as unfinished:
        model.write(unfinished)
        write_json(unfinished / INPUTS_FILE, model.inputs)
        if cost is not None:
            write_json(unfinished / TABLES_FILE, cost)
        write_classes(unfinished, class_names(ranker))
        features = {
            input: ranker.fitted[name] for name, input in model.inputs.items()
        }
        write_known_ids(unfinished, known_ids(features))
        write_list_lengths(
            unfinished,
            {input: feature.raw_length for input, feature in features.items()},
        )
        written = {**options, "score": formula.text}
        del written["tables"]  # Of `TABLES_FILE`.
        if model.rerank is None:
            del written["rerank"], written["diversity"]
        del written["expert-weights"]  # The signature says it.
        if model.index in FAISS_INDEXES:
            written |= write_index(model, options["recall"], unfinished)
        else:
            del written["recall"]  # Of an index of faiss alone.
        write_json(unfinished / TWO_STAGE_FILE, written)
        verify_two_stage(model, unfinished)
        write_descriptions(run, ranker, examples(features), unfinished)


def verify_two_stage(model: TwoStage, folder: Path) -> None:
    """Checks that a SavedModel recommends what the live model does.

    Its scores have to be those of the best items, one after the other, and
    its predictions those of the items that it names.

    Args:
        model: What was written.
        folder: Where.

    Raises:
        ExportError: It does not, or cannot be loaded without Keras.
    """
    rows, seen = _sample(model)
    queries = [
        _Query(model, rows.iloc[[row]], had) for row, had in enumerate(seen)
    ]
    # What goes with an index of faiss answers without it, too.
    indexes = list(dict.fromkeys([index_inside(model.index), model.index]))
    outputs = _outputs(model, folder, rows, seen, indexes)
    for index in indexes:
        _verify(queries, outputs[index], index)


def _verify(
    queries: "Sequence[_Query]", outputs: Mapping[str, np.ndarray], index: str
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
                    "The SavedModel must recommend the same as the model. "
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
    rows: pd.DataFrame,
    seen: list[np.ndarray],
    indexes: Sequence[str],
) -> dict[str, dict[str, np.ndarray]]:
    """Outputs of the SavedModel, by index, in a process without Keras."""
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
        words = [sys.executable, "-m", module, str(folder), str(inputs)]
        for index, file in outputs.items():
            words += [index, str(file)]
        process = run_alongside(words)
        if process.returncode:
            raise ExportError(
                "The SavedModel must run without Keras. "
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
