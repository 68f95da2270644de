"""A report on runs of every gate there is, and of every architecture."""

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_moe.layers import LogitGate
from recsys import Dataset
from recsys import TrainConfig
from recsys.api.report import report
from recsys.config.gate_names import GATES
from recsys.config.gate_names import GateChoice
from recsys.config.train_config import ARCHITECTURES
from recsys.measuring.sample import Sample
from recsys.models.build import build_model
from recsys.models.gates import gate_class
from recsys.models.multi_task_model import MultiTaskModel
from recsys.reporting.changed_model import with_configs
from recsys.reporting.flops import flops
from recsys.reporting.loss_distributions import softmax_of
from recsys.reporting.loss_distributions import with_gates
from recsys.reporting.trained import Trained
from recsys.reporting.trained import read_trained
from recsys.runs.run import Run
from recsys.training.resolve_config import resolve_config
from tests.examples import Drawn
from tests.recsys.reporting.run_folders import metrics

pytestmark = pytest.mark.slow

CASES: dict[str, dict[str, Any]] = {
    **{gate: {"gate": gate} for gate in GATES},
    **{
        name: {"gate": name}
        for gate in GATES
        for name in [str(GateChoice(gate, searched=True))]
        # TensorFlow traces each several times.
        if not Drawn.few or gate in ("top-k", "comet")
    },
    "noisy": {"gate": "top-k", "gate_options": {"noisy": True}},
    "balanced": {"gate": "top-k", "gate_options": {"balance": "bias"}},
    "sigmoid": {
        "gate": "top-k",
        "gate_options": {"scores": "sigmoid", "route_scale": 2.5},
    },
    "capped": {
        "gate": "expert-choice",
        "gate_options": {"max_experts_per_token": 2},
    },
    "static softmax": {"gate": "softmax", "gate_options": {"static": True}},
    "static top-k": {"gate": "top-k", "gate_options": {"static": True}},
    "static dselect-k": {
        "gate": "dselect-k",
        "gate_options": {"static": True},
    },
    **{
        name: {
            "architecture": name,
            "gate": "expert-choice",
            "task_experts": 2,
        }
        for name in ARCHITECTURES
        if name != "mmoe"
    },
}
on_torch = pytest.mark.skipif(
    keras.backend.backend() != "torch",
    reason="many models predict once; PyTorch compiles none of them",
)
# Those that turn linear logits into weights.
FROM_LOGITS = {
    f"{name}{mark}"
    for name in GATES
    for gate in [gate_class(name)]
    for mark in ("", "+")
    if issubclass(gate, LogitGate) and gate.has_softmax
}
FROM_LOGITS |= {"noisy", "balanced", "capped", "moe", "cgc", "ple"}
FROM_LOGITS |= {"adatt", "stem", "home"}
FROM_LOGITS |= {"static softmax", "static top-k"}


def write_untrained_run(
    folder: Path, tiny: Dataset, **fields: Any
) -> MultiTaskModel:
    """Writes a run with all that a report looks into, but the curves.

    Returns:
        Its model.
    """
    config = TrainConfig(
        **{
            "data": "synthetic",
            "out": str(folder),
            "num_experts": 4,
            "k": 2,
            "embedding_dim": 2,
            "expert_units": [3],
            "head_units": [2],
            "task_weights": {"watch": 0.5, "rating": 0.5},
            **fields,
        }
    )
    config = resolve_config(config, tiny.schema)
    model = build_model(config, tiny)
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:  # None is like another.
        weight.assign(rng.normal(size=weight.shape))
    run = Run(folder)
    run.write_config(config)
    run.save_model(model)
    Sample.of(model, tiny).write(run.sample)
    both = {"validation": metrics(0.5), "test": metrics(0.5)}
    run.metrics.write_text(json.dumps(both))
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("every_gate")


@pytest.fixture(scope="module")
def models(folder: Path, tiny: Dataset) -> dict[str, MultiTaskModel]:
    """The models of a comparison of all cases, which it writes."""
    return {
        name: write_untrained_run(folder / name / "seed-0", tiny, **fields)
        for name, fields in CASES.items()
    }


@pytest.fixture(scope="module")
def runs(folder: Path, models: dict[str, MultiTaskModel]) -> dict[str, Trained]:
    """The runs of all cases, with their models as they were before saving."""
    runs = {run.model: run for run in read_trained([folder])}
    for name, model in models.items():
        vars(runs[name])["loaded"] = model  # A cached property.
    return runs


@on_torch
@pytest.mark.usefixtures("models")
def test_report(folder: Path, tmp_path: Path) -> None:
    titles = report([folder], tmp_path / "report")
    assert {"Experts shared by tasks", "Dense and sparse inference"} <= set(
        titles
    )
    text = (tmp_path / "report" / "report.md").read_text()
    _, _, dense_and_sparse = text.partition("## Dense and sparse inference")
    for name in CASES:
        assert f"| {name} |" in text
        assert (f"| {name} |" in dense_and_sparse) == (name in FROM_LOGITS)


@on_torch
@pytest.mark.parametrize("name", CASES)
def test_a_copy_of_a_model_predicts_the_same(
    name: str, runs: dict[str, Trained]
) -> None:
    model, inputs = runs[name].loaded, runs[name].sample.inputs
    copy = with_configs(model, lambda config: config)
    expected = model(inputs, training=False)
    for task, values in copy(inputs, training=False).items():
        np.testing.assert_array_equal(
            ops.convert_to_numpy(values), ops.convert_to_numpy(expected[task])
        )


@on_torch
@pytest.mark.parametrize("name", ["expert-choice", "noisy", "capped"])
def test_dense_inference_has_the_softmax_of_the_gates_own_logits(
    name: str, runs: dict[str, Trained]
) -> None:
    model, inputs = runs[name].loaded, runs[name].sample.inputs
    dense = with_gates(model, softmax_of)
    features, _ = model.mixture_inputs(inputs, training=False)
    for task, gate in model.mixture.gates.items():
        np.testing.assert_allclose(
            ops.convert_to_numpy(dense.mixture.gates[task](features)),
            ops.convert_to_numpy(ops.softmax(gate.compute_logits(features))),
            rtol=1e-6,
        )


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="operations are counted in TensorFlow's graph",
)
def test_operations_are_counted(runs: dict[str, Trained]) -> None:
    section = flops(list(runs.values()))
    assert section is not None
    (table,) = section.tables
    without = {"cgc", "ple", "adatt", "stem", "home", "shared-bottom"}
    assert {row[0] for row in table.rows} == set(CASES) - without
