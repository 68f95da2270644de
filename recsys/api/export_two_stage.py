import os
import sys
from importlib.util import find_spec
from pathlib import Path

import keras

from recsys.api.compact_export import TABLES_FILE
from recsys.api.compact_export import check_tables
from recsys.api.compact_export import compacted
from recsys.api.export_descriptions import write_descriptions
from recsys.api.recommend import CANDIDATES
from recsys.api.recommend import score_formula
from recsys.api.verify_two_stage import verify_two_stage
from recsys.errors import ExportError
from recsys.errors.bounds import check_count
from recsys.errors.choices import check_choice
from recsys.exporting import export_format
from recsys.exporting.class_names import class_names
from recsys.exporting.examples import examples
from recsys.exporting.exported_ids import known_ids
from recsys.exporting.input_names import INPUTS_FILE
from recsys.exporting.item_index import INDEXES
from recsys.exporting.item_index import LEGACY_INDEXES
from recsys.exporting.item_index import index_inside
from recsys.exporting.two_stage import RECALL
from recsys.exporting.two_stage import TwoStage
from recsys.exporting.two_stage import write_index
from recsys.exporting.verification import last_line
from recsys.exporting.versions import write_model
from recsys.files.atomic import replacing
from recsys.files.folders import check_vacant
from recsys.files.json_files import JsonObject
from recsys.files.json_files import write_json
from recsys.files.output_lock import sole_writer
from recsys.models.compact_rows import FLOAT32
from recsys.processes.lifeline import run_alongside
from recsys.retrieval.rerank import DIVERSITY
from recsys.retrieval.rerank import check_rerank
from recsys.runs.run import Run
from recsys.serving.formats import DEFAULT_FORMAT
from recsys.serving.import_faiss import import_faiss
from recsys.serving.index_file import FAISS_INDEXES
from recsys.serving.list_lengths import write_list_lengths
from recsys.serving.monitoring.known_ids import write_known_ids
from recsys.serving.task_classes import write_classes
from recsys.serving.two_stage_runner import BRUTE_FORCE
from recsys.serving.two_stage_runner import TWO_STAGE_FILE

LEGACY_KERAS = "TF_USE_LEGACY_KERAS"
_RECOMMENDERS = "tensorflow_recommenders"


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
    format: str = DEFAULT_FORMAT,
) -> Path:
    """Exports retrieval and ranking as one model.

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
        format: `"tf_saved_model"` (default) or `"onnx"`, a file for
            onnxruntime, of brute force alone.

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
            such format, index or reranking, the format has no such index, or
            tables cannot be stored so.
    """
    form = export_format(format)
    check_tables(tables)
    check_rerank(rerank, diversity)
    check_count("top", top)
    check_count("candidates", candidates)
    if top > candidates:
        raise ValueError(
            "`top` must be at most the number of candidates, "
            f"{candidates}. Received: top={top}"
        )
    check_choice("index", index, INDEXES)
    form.check_index(index)
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
        "format": format,
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
    form = export_format(options["format"])
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
        form.write_two_stages(model, unfinished)
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
        del written["format"]  # The files say it.
        if model.rerank is None:
            del written["rerank"], written["diversity"]
        del written["expert-weights"]  # The signature says it.
        if model.index in FAISS_INDEXES:
            written |= write_index(model, options["recall"], unfinished)
        else:
            del written["recall"]  # Of an index of faiss alone.
        write_json(unfinished / TWO_STAGE_FILE, written)
        verify_two_stage(model, unfinished, form.name)
        write_descriptions(run, ranker, examples(features), unfinished)
