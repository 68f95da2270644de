"""A ranker with each gate, written and run in a process without Keras."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

from recsys import Dataset
from recsys import ExportError
from recsys import Ranker
from recsys import TrainConfig
from recsys.config.gate_names import GATES
from recsys.exporting import ExportFormat
from recsys.exporting import export_format
from recsys.exporting import verification
from recsys.exporting.served_ranker import ServedRanker
from recsys.exporting.verification import compare
from recsys.exporting.verification import fresh_outputs
from recsys.exporting.verification import rows_to_try
from recsys.models.build import build_ranker
from recsys.serving.formats import FORMATS
from recsys.training.resolve_config import resolve_config

pytestmark = pytest.mark.slow

CONFIG = TrainConfig(
    "tiny",
    "run",
    num_experts=4,
    k=2,
    embedding_dim=4,
    expert_units=[8],
    head_units=[4],
)
# With a small gamma, decisions make more of rounding than is tolerated.
SOFT = {"gate_options": {"gamma": 1.0}}
CASES: dict[str, dict[str, Any]] = {
    **{name: {"gate": name} for name in GATES},
    "comet": {"gate": "comet", **SOFT},
    "dselect-k": {"gate": "dselect-k", **SOFT},
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
    "pepnet": {"gate": "top-k", "scenario_model": "pepnet"},
    "star": {"gate": "top-k", "scenario_model": "star"},
}


def ranker_of(dataset: Dataset, changes: dict[str, Any]) -> Ranker:
    """With weights as after a training: gates are sparse, experts differ."""
    config = dataclasses.replace(CONFIG, **changes)
    schema = dataclasses.replace(dataset.schema, scenario="film")
    dataset = dataclasses.replace(dataset, schema=schema)
    ranker = build_ranker(resolve_config(config, schema), dataset)
    rng = np.random.default_rng(0)
    for weight in ranker.trainable_weights:
        weight.assign(rng.normal(scale=0.5, size=weight.shape))
    orders = [w for w in ranker.weights if w.path.endswith("/order")]
    for order in orders:
        order.assign(rng.permutation(order.shape[0]))
    return ranker


@pytest.fixture(
    scope="module",
    params=[
        form
        for form in map(export_format, FORMATS)
        if form.backend == keras.backend.backend()
    ],
    ids=lambda form: form.name,
)
def form(request: Any) -> ExportFormat:
    chosen: ExportFormat = request.param
    return chosen


@pytest.fixture(scope="module", autouse=True)
def _compiled_once() -> Iterator[None]:
    """Lets the comparisons with one ranker share what is compiled of it."""
    with pytest.MonkeyPatch.context() as patch:
        cached = functools.cache(verification.LiveOutputs)
        patch.setattr(verification, "LiveOutputs", cached)
        yield


@pytest.fixture(scope="module")
def rankers(tiny: Dataset) -> dict[str, Ranker]:
    return {name: ranker_of(tiny, CASES[name]) for name in CASES}


@pytest.fixture(scope="module")
def received(
    form: ExportFormat,
    rankers: dict[str, Ranker],
    tiny: Dataset,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    """What each has returned, all of them in one process."""
    folders = {}
    raw = {}
    for name, ranker in rankers.items():
        served = ServedRanker(ranker, expert_weights=True)
        folders[name] = tmp_path_factory.mktemp("model") / "1"
        form.write(served, folders[name])
        rows = rows_to_try(ranker, tiny.split("test"))
        raw[folders[name]] = served.raw(rows)
    outputs = fresh_outputs(form, raw)
    return {name: outputs[folder] for name, folder in folders.items()}


@pytest.mark.parametrize("name", CASES)
def test_what_is_served_is_what_was_trained(
    name: str,
    form: ExportFormat,
    rankers: dict[str, Ranker],
    received: dict[str, Any],
    tiny: Dataset,
) -> None:
    """Predictions and weights, of all batch sizes and without each feature."""
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
