"""A ranker with each gate, written and run in a process without Keras."""

import dataclasses
import functools
from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import pandas as pd
import pytest

from recsys import Dataset
from recsys import ExportError
from recsys import Ranker
from recsys import TrainConfig
from recsys.config.gate_names import GATES
from recsys.config.train_config import SCENARIO_MODELS
from recsys.exporting import ExportFormat
from recsys.exporting import export_format
from recsys.exporting import verification
from recsys.exporting.served_ranker import ServedRanker
from recsys.exporting.verification import compare
from recsys.exporting.verification import fresh_outputs
from recsys.exporting.verification import rows_to_try
from recsys.models.build import build_ranker
from recsys.models.gates import gate_class
from recsys.serving.formats import FORMATS
from recsys.training.resolve_config import resolve_config
from tests.examples import Drawn

pytestmark = pytest.mark.slow

# Large enough that running few experts pays.
CONFIG = TrainConfig(
    "tiny",
    "run",
    num_experts=16,
    k=2,
    embedding_dim=32,
    expert_units=[64],
    head_units=[4],
)
# With a small gamma, decisions make more of rounding than is tolerated.
SOFT = {"gate_options": {"gamma": 1.0}}
CASES: dict[str, dict[str, Any]] = {
    **{name: {"gate": name} for name in GATES},
    "comet": {"gate": "comet", **SOFT},
    "dselect-k": {"gate": "dselect-k", **SOFT},
    # The plan for an input `budget` is of half of the experts: wide ones pay.
    "budget": {"gate": "budget", "expert_units": [256]},
    "top-k+": {"gate": "top-k+"},
    "comet+": {"gate": "comet+", **SOFT},
    "one gate+": {"gate": "dselect-k+", "architecture": "moe", **SOFT},
    "static": {
        "gate": "dselect-k",
        "num_experts": 8,
        "gate_options": {"static": True},
    },
    "static+": {"gate": "top-k+", "gate_options": {"static": True}},
    "levels": {"gate": "softmax", "architecture": "ple"},
    "sparse levels": {"gate": "comet", "architecture": "ple", **SOFT},
    "levels+": {"gate": "top-k+", "architecture": "ple"},
    "own experts": {"gate": "dselect-k", "architecture": "cgc", **SOFT},
    "hierarchy": {"gate": "softmax", "architecture": "home"},
    "sparse hierarchy": {"gate": "top-k", "architecture": "home"},
    "fusion": {"gate": "softmax", "architecture": "adatt"},
    "task embeddings": {"gate": "softmax", "architecture": "stem"},
    "sparse task embeddings": {"gate": "top-k", "architecture": "stem"},
    **{
        name: {"gate": "top-k", "scenario_model": name}
        for name in SCENARIO_MODELS[1:]
    },
}


def ranker_of(dataset: Dataset, changes: dict[str, Any]) -> Ranker:
    """With weights as after a training: gates are sparse, experts differ."""
    config = dataclasses.replace(CONFIG, **changes)
    schema = dataclasses.replace(dataset.schema, scenario="film")
    dataset = dataclasses.replace(dataset, schema=schema)
    ranker = build_ranker(resolve_config(config, schema), dataset)
    rng = np.random.default_rng(0)
    means = [w for w in ranker.weights if w.path.endswith("/means")]
    for weight in ranker.trainable_weights + means:
        weight.assign(rng.normal(scale=0.5, size=weight.shape))
    orders = [w for w in ranker.weights if w.path.endswith("/order")]
    for order in orders:
        order.assign(rng.permutation(order.shape[0]))
    return ranker


# `make test` writes most in one form. Operations are converted for ONNX, each
# gate's own above all; a SavedModel has to find the weights, also those that
# are not trained, of every architecture and every order of experts.
IN_ONE_FORM = {
    **dict.fromkeys(
        (
            *("softmax", "top-k", "v-moe", "switch", "x-moe"),
            *("gumbel-softmax", "dselect-k", "moesart", "remoe"),
            *("comet+", "static", "fusion", "star"),
            *("sparse levels", "sparse hierarchy", "sparse task embeddings"),
        ),
        "onnx",
    ),
    **dict.fromkeys(
        (
            *("top-k+", "one gate+", "static+", "levels+", "own experts"),
            *("levels", "hierarchy", "task embeddings", "pepnet"),
        ),
        "tf_saved_model",
    ),
}


@pytest.fixture(
    scope="module",
    params=[
        form
        for form in map(export_format, FORMATS)
        if form.backend == keras.backend.backend()
    ],
    ids=lambda form: form.name,
)
def form(request: pytest.FixtureRequest) -> ExportFormat:
    chosen: ExportFormat = request.param
    return chosen


def is_written(name: str, form: ExportFormat) -> bool:
    """Whether a case is tried in a form."""
    return not Drawn.few or IN_ONE_FORM.get(name, form.name) == form.name


class ComputedOnce(verification.LiveOutputs):
    """All comparisons with a ranker are of the same rows."""

    known: dict[str, dict[str, np.ndarray]] | None = None

    def outputs(
        self, parts: Mapping[str, tuple[pd.DataFrame, int]]
    ) -> dict[str, dict[str, np.ndarray]]:
        if self.known is None:
            self.known = super().outputs(parts)
        assert [*self.known] == [*parts]
        return self.known


@pytest.fixture(scope="module", autouse=True)
def _predicted_once() -> Iterator[None]:
    """Lets the comparisons with one ranker share its predictions."""
    with pytest.MonkeyPatch.context() as patch:
        cached = functools.cache(ComputedOnce)
        patch.setattr(verification, "LiveOutputs", cached)
        yield


@pytest.fixture(scope="module")
def rankers(tiny: Dataset) -> dict[str, Ranker]:
    return {name: ranker_of(tiny, CASES[name]) for name in CASES}


@pytest.fixture(scope="module")
def folders(
    form: ExportFormat,
    rankers: dict[str, Ranker],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """What each was written as."""
    folders = {}
    for name in [name for name in CASES if is_written(name, form)]:
        folders[name] = tmp_path_factory.mktemp("model") / "1"
        served = ServedRanker(rankers[name], expert_weights=True)
        form.write(served, folders[name])
    return folders


@pytest.fixture(scope="module")
def received(
    form: ExportFormat,
    rankers: dict[str, Ranker],
    folders: dict[str, Path],
    tiny: Dataset,
) -> dict[str, Any]:
    """What each has returned, all of them in one process."""
    raw = {}
    for name, folder in folders.items():
        rows = rows_to_try(rankers[name], tiny.split("test"))
        raw[folder] = ServedRanker(rankers[name]).raw(rows)
    outputs = fresh_outputs(form, raw)
    return {name: outputs[folder] for name, folder in folders.items()}


@pytest.mark.parametrize("name", CASES)
def test_what_is_served_is_what_was_trained(
    name: str,
    form: ExportFormat,
    rankers: dict[str, Ranker],
    folders: dict[str, Path],
    received: dict[str, Any],
    tiny: Dataset,
) -> None:
    """Predictions and weights, of all batch sizes and without each feature."""
    if not is_written(name, form):
        pytest.skip("written in the other form")
    if form.name == "onnx" and name == CASES[name]["gate"]:
        # Which experts are left out is decided in the file.
        file = onnx.load(folders[name] / "model.onnx")
        sparse = b"SparseMatMul" in file.graph.SerializeToString()
        assert sparse == (not gate_class(name).dense_in_training)
    ranker = rankers[name]
    rows = rows_to_try(ranker, tiny.split("test"))
    compare(form, ranker, rows, received[name])
    assert "watch/experts/1000" in received[name]
    wrong = received[name] | {"rating/7": received[name]["rating/7"] + 0.001}
    with pytest.raises(ExportError, match=r"'rating'.* at batch size 7: pred"):
        compare(form, ranker, rows, wrong)
    del wrong["rating/7"], wrong["watch/1"]
    with pytest.raises(ExportError, match=r"'watch'.* size 1: no such output"):
        compare(form, ranker, rows, wrong)
