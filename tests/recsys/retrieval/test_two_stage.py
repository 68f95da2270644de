import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import recsys
from recsys.api.export_two_stage import export_two_stage
from recsys.api.verify_two_stage import verify_two_stage
from recsys.cli import run as command
from recsys.errors import ExportError
from recsys.errors import RunError
from recsys.exporting import export_format
from recsys.exporting.item_index import create_index
from recsys.exporting.two_stage import TwoStage
from recsys.exporting.two_stage import write_index
from recsys.models.two_tower import TwoTower
from recsys.retrieval.formula import Formula
from recsys.runs.run import Run
from recsys.serving.index_file import checksum
from tests.recsys.retrieval.conftest import SCORE
from tests.recsys.retrieval.id_kinds import IdKinds
from tests.recsys.retrieval.stored import stored_shapes
from tests.recsys.warmup_requests import warmup_requests

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        keras.backend.backend() != "tensorflow",
        reason="starts processes of its own; once is enough",
    ),
]

TASKS = ("watch", "rating")


@pytest.fixture(scope="module")
def ranker(retrieving_run: Path) -> TwoTower:
    return Run(retrieving_run).load_two_tower()


def served(folder: Path, ids: IdKinds, **inputs: Any) -> dict[str, Any]:
    import tensorflow as tf

    loaded = tf.saved_model.load(str(folder))
    user, item = (tf.string if t is object else tf.int64 for t in ids.types)
    given = {
        "user": tf.constant(inputs["user"], user),
        "age": tf.constant(inputs["age"], tf.float32),
        "history": tf.constant(inputs["history"], item),
        "seen": tf.constant(inputs["seen"], item),
    }
    outputs = loaded.signatures["serving_default"](**given)
    return {name: values.numpy() for name, values in outputs.items()}


def query_of(ids: IdKinds) -> dict[str, Any]:
    return {"user": [ids.user(4)], "age": [24.0], "history": [[ids.item(3)]]}


@pytest.mark.filterwarnings("ignore:the training split has no user")
def test_it_recommends_what_the_command_does(
    exported: Path, retrieving_run: Path, ids: IdKinds
) -> None:
    history = ids.items([3, 20])
    outputs = served(
        exported,
        ids,
        user=[ids.user(4), ids.nobody],
        age=[24.0, np.nan],
        history=[history, [ids.nothing] * 2],
        seen=[[], []],
    )
    weights = {task: outputs.pop(f"{task}/experts") for task in TASKS}
    assert outputs.keys() == {"item", "score", *TASKS}
    assert {one.shape for one in outputs.values()} == {(2, 4)}
    assert {one.shape for one in weights.values()} == {(2, 4, 4)}
    for row, (user, features) in enumerate(
        [(ids.user(4), {"age": 24, "history": history}), (ids.nobody, {})]
    ):
        found = recsys.recommend(
            retrieving_run,
            user,
            top=4,
            score=SCORE,
            candidates=12,
            features=features,
        )
        assert ids.numbers(outputs["item"][row]) == ids.numbers(found["item"])
        for name in ("score", "watch", "rating"):
            np.testing.assert_allclose(
                outputs[name][row], found[name], rtol=1e-4
            )
        for task in TASKS:
            expected = np.zeros((4, 4))
            for item, experts in enumerate(found[f"{task}_experts"]):
                for expert, weight in experts:
                    expected[item, expert] = weight
            np.testing.assert_allclose(
                weights[task][row], expected, rtol=1e-4, atol=1e-6
            )


def test_what_was_seen_is_not_recommended(exported: Path, ids: IdKinds) -> None:
    query = query_of(ids)
    first = served(exported, ids, **query, seen=[[]])["item"][0].tolist()
    # 99 is no item.
    seen = [first[0], ids.item(99), ids.nothing, first[2]]
    second = served(exported, ids, **query, seen=[seen])["item"][0].tolist()
    # Two more candidates come in, which may stand anywhere.
    assert [i for i in second if i in first] == [first[1], first[3]]


def test_inputs_may_be_left_out(exported: Path, ids: IdKinds) -> None:
    run = export_format("tf_saved_model").load(exported)
    users = np.array([ids.user(4), ids.user(5)])
    given = {
        "age": np.full(2, np.nan, np.float32),
        "history": np.full((2, 1), ids.nothing),
        "seen": np.full((2, 1), ids.nothing),
    }
    wanted, outputs = run({"user": users, **given}), run({"user": users})
    for name, values in wanted.items():
        np.testing.assert_array_equal(outputs[name], values)
    for name in given:
        others = {key: given[key] for key in given if key != name}
        one = run({"user": users, **others})
        np.testing.assert_array_equal(one["item"], wanted["item"])


def test_fewer_items_than_asked_for(exported: Path, ids: IdKinds) -> None:
    seen = ids.items(range(1, 30))
    outputs = served(exported, ids, **query_of(ids), seen=[seen])
    first, *others = outputs["item"][0]
    assert ids.number(first) == 0
    assert others == 3 * [b"" if ids.texts else ids.nothing]
    assert (outputs["score"][0, 1:] == np.finfo(np.float32).min).all()


def test_what_it_was_exported_with(exported: Path) -> None:
    extra = exported / "assets.extra"
    assert json.loads((extra / "two_stage.json").read_text()) == {
        "score": SCORE,
        "top": 4,
        "candidates": 12,
        "index": "hnsw",
        "recall": 1.0,
        "found": 1.0,
        "sha256": checksum(extra / "items.faiss"),
    }
    inputs = json.loads((extra / "inputs.json").read_text())
    assert list(inputs) == ["user", "age", "history"]


def test_a_server_finds_requests_to_warm_up_with(
    exported: Path, ids: IdKinds
) -> None:
    run = export_format("tf_saved_model").load(exported)
    sizes = []
    for inputs in warmup_requests(exported):
        assert set(inputs) == {"user", "age", "history", "seen"}
        sizes.append(len(inputs["user"]))
        assert inputs["seen"].shape == (sizes[-1], 1)
        assert run(inputs)["item"].shape == (sizes[-1], 4)
    assert sizes == [1, 8, 64, 512]
    seen = {one.decode() if ids.texts else one for one in inputs["seen"].flat}
    assert seen > set(ids.items(range(30)))  # And what is no item.


def test_nothing_is_stored_that_is_not_used(
    exported: Path, ranker: TwoTower
) -> None:
    """The items' vectors once, as the index has them, and no item tower."""
    shapes = stored_shapes(exported)
    retrieval = ranker.retrieval
    assert shapes.count([*retrieval.vectors.shape]) == 1
    used = [*ranker.ranking_variables, *retrieval.query_variables]
    assert len(shapes) == len(used) + 1


@pytest.fixture
def _run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets models be compared with what a process has returned for the first.

    It is asked for the same rows each time.
    """
    module = sys.modules[verify_two_stage.__module__]
    run = module._outputs
    kept: list[Any] = []

    def outputs(*asked: Any) -> Any:
        if not kept:
            kept.append(run(*asked))
        return kept[0]

    monkeypatch.setattr(module, "_outputs", outputs)


@pytest.mark.usefixtures("_run_once")
def test_what_recommends_something_else_is_found(
    exported: Path, ranker: TwoTower
) -> None:
    names = ["watch", "rating"]
    formula = Formula(SCORE, names)
    written = TwoStage(ranker, formula, 4, 12, expert_weights=True)
    verify_two_stage(written, exported)
    other = replace(written, formula=Formula("rating", names))
    with pytest.raises(ExportError, match="other scores"):
        verify_two_stage(other, exported)
    with pytest.raises(ExportError, match="other items than the best"):
        verify_two_stage(replace(written, candidates=30), exported)


@pytest.mark.filterwarnings("ignore:the training split has no user")
@pytest.mark.usefixtures("_run_once")
def test_lists_are_reranked_as_the_command_does(
    retrieving_run: Path, ranker: TwoTower, ids: IdKinds, tmp_path: Path
) -> None:
    rerank = "dpp" if ids.texts else "mmr"
    options = ["--rerank", rerank, "--diversity", "0.9", "--no-version"]
    words = ["--run", str(retrieving_run), "--out", str(tmp_path / "out")]
    words += ["--score", SCORE, "--top", "4", "--candidates", "12"]
    # It is verified, too.
    assert command(["export", "--two-stage", *words, *options]) == 0
    options_file = tmp_path / "out" / "assets.extra" / "two_stage.json"
    written = json.loads(options_file.read_text())
    assert (written["rerank"], written["diversity"]) == (rerank, 0.9)
    given = {"user": [ids.user(4)], "age": [24.0], "seen": [[]]}
    history = ids.items([3, 20])
    outputs = served(tmp_path / "out", ids, **given, history=[history])
    lists = [
        recsys.recommend(
            retrieving_run,
            ids.user(4),
            top=4,
            score=SCORE,
            candidates=12,
            features={"age": 24, "history": history},
            rerank=name,
            diversity=0.9,
        )
        for name in (rerank, None)
    ]
    found, by_score = (ids.numbers(each["item"]) for each in lists)
    assert ids.numbers(outputs["item"][0]) == found != by_score
    for name in ("score", "watch", "rating"):
        np.testing.assert_allclose(outputs[name][0], lists[0][name], rtol=1e-4)
    formula = Formula(SCORE, ["watch", "rating"])
    other = TwoStage(ranker, formula, 4, 12, rerank=rerank, diversity=0.1)
    with pytest.raises(ExportError, match=f"than those of {rerank}"):
        verify_two_stage(other, tmp_path / "out")


def test_an_index_that_finds_too_few(ranker: TwoTower, tmp_path: Path) -> None:
    formula = Formula(SCORE, ["watch", "rating"])
    model = TwoStage(ranker, formula, 4, 12, "ivf")
    with pytest.raises(ExportError, match=r"share of 1.1 of the best 12.*1\."):
        write_index(model, 1.1, tmp_path)
    assert not [*tmp_path.iterdir()]


def test_a_failed_export_leaves_nothing(run: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="a run with `retrieval`"):
        export_two_stage(run, tmp_path / "out")
    assert not (tmp_path / "out" / "1").exists()


def test_a_score_that_is_no_formula(
    retrieving_run: Path,
    ids: IdKinds,
    tmp_path: Path,
) -> None:
    # The one of TensorFlow Recommenders is made in a process of its own.
    index = "brute-force" if ids.texts else "tfrs"
    with pytest.raises(ValueError, match=r"`score`: .* at character 8"):
        export_two_stage(
            retrieving_run, tmp_path / "out", score="watch +", index=index
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"top": 0}, "`top` must be at least 1"),
        ({"top": 11, "candidates": 10}, "at most the number of candidates"),
        ({"index": "faiss"}, "one of brute-force, hnsw, ivf, .*'faiss'"),
        ({"recall": 0.0}, "`recall` must be above 0 and at most 1"),
        ({"format": "tflite"}, "one of tf_saved_model, onnx.*'tflite'"),
        (
            {"format": "onnx", "index": "ivf"},
            "`index` must be 'brute-force' with format='onnx'.*index='ivf'",
        ),
    ],
)
def test_options_that_cannot_be(
    retrieving_run: Path,
    tmp_path: Path,
    changes: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(ValueError, match=message):
        export_two_stage(retrieving_run, tmp_path / "out", **changes)


def test_a_folder_that_is_taken(retrieving_run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="a new or empty folder"):
        export_two_stage(retrieving_run, tmp_path, version=False)


def test_scann_where_it_is_not_installed() -> None:
    with pytest.raises(ExportError, match="without the package scann"):
        create_index("scann", np.zeros((3, 2), np.float32), 2)
