"""The sections that look into the trained models."""

from collections.abc import Callable
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops
from matplotlib.colors import to_rgba
from scipy.stats import wasserstein_distance

from keras_moe.layers import TopKGate
from recsys import Dataset
from recsys import TrainConfig
from recsys.measuring.curves import read_history
from recsys.models.build import build_ranker
from recsys.reporting.embeddings import embedded_rows
from recsys.reporting.embeddings import embeddings
from recsys.reporting.embeddings import expert_colours
from recsys.reporting.flops import flops
from recsys.reporting.loss_distributions import dense_and_sparse
from recsys.reporting.loss_distributions import loss_distributions
from recsys.reporting.loss_distributions import losses_of_rows
from recsys.reporting.operations import count_operations
from recsys.reporting.shared_experts import in_words
from recsys.reporting.shared_experts import overlap_of_tasks
from recsys.reporting.shared_experts import shared_experts
from recsys.reporting.trained import Trained
from recsys.reporting.trained import read_trained
from recsys.reporting.training_flops import training_flops
from recsys.training.resolve_config import resolve_config
from tests.recsys.reporting.run_folders import write_run

pytestmark = [pytest.mark.slow, pytest.mark.once("torch")]

on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="operations are counted in TensorFlow's graph",
)


@pytest.fixture(scope="module")
def trained(
    data: Path,
    train_quickly: Callable[[Mapping[str, Any]], object],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Trained]:
    folder = tmp_path_factory.mktemp("runs")
    for gate in ("softmax", "top-k", "comet"):
        train_quickly(
            {
                "data": str(data),
                "out": str(folder / gate),
                "gate": gate,
                "num_experts": 4,
                "k": 2,
                "embedding_dim": 4,
                "expert_units": [8],
                "head_units": [6],
                "epochs": 1,
                "batch_size": 64,
            }
        )
    return {one.model: one for one in read_trained([folder])}


def test_the_sample_is_what_the_model_takes(
    trained: dict[str, Trained],
) -> None:
    run = trained["top-k"]
    assert len(run.sample) == 40
    assert set(run.sample.inputs) == {"user", "film", "age"}
    assert np.isnan(run.sample.labels["rating"]).any()
    assert run.loaded.predict(run.sample.inputs, verbose=0)


@pytest.mark.once("tensorflow")
@on_tensorflow
def test_operations_are_those_counted_by_hand(
    trained: dict[str, Trained],
) -> None:
    # Two ids, a number and the vector of its bucket.
    width, units, head, experts, tasks = 2 * 4 + 1 + 8, 8, 6, 4, 2
    gates = tasks * width * experts
    heads = tasks * (units * head + head)
    for name in ("softmax", "top-k"):
        run = trained[name]
        counted = count_operations(run.loaded, run.sample)
        assert counted is not None
        assert counted.other == 2 * (gates + heads)
        assert counted.expert == 2 * width * units
        assert counted.weighted == 2 * units
        assert (counted.num_experts, counted.num_gates) == (experts, tasks)
        assert counted.weights == tasks * (experts if name == "softmax" else 2)
        evaluated = counted.experts
    assert 2 < evaluated < experts
    assert counted.forward(3.0, 4.0) == 2 * (
        gates + heads + 3 * width * units + 4 * units
    )


@pytest.mark.once("tensorflow")
@on_tensorflow
def test_the_table_of_operations(trained: dict[str, Trained]) -> None:
    section = flops(list(trained.values()))
    assert section is not None
    assert [row[0] for row in section.tables[0].rows] == [
        *("comet", "softmax", "top-k")
    ]


@pytest.mark.once("tensorflow")
@on_tensorflow
def test_the_table_of_trainings(trained: dict[str, Trained]) -> None:
    section = training_flops(list(trained.values()))
    assert section is not None
    (table,) = section.tables
    assert table.header[-1] == "training / top-k"
    by_model = {row[0]: row[1:] for row in table.rows}
    assert list(by_model) == ["comet", "softmax", "top-k"]
    assert by_model["top-k"][-2:] == ["1.00", "1.00"]
    # Gates 136, heads 108, 4 experts 544, sums 64: 852 multiplications.
    assert by_model["softmax"][:2] == ["1", "5K"]
    history = read_history(trained["top-k"].run.history)
    (experts,) = history["experts_evaluated"]
    of_top_k = 136 + 108 + 136 * experts + 8 * 4
    assert by_model["softmax"][-1] == f"{852 / of_top_k:.2f}"


def test_losses_of_rows_add_up_to_the_loss(
    trained: dict[str, Trained], tiny: Dataset
) -> None:
    train = tiny.split("train")
    run = trained["top-k"]
    sample, weights = run.sample, {"watch": 0.9, "rating": 0.1}
    losses = losses_of_rows(run.loaded, sample, weights)
    predicted = run.loaded.predict(sample.inputs, verbose=0)
    watch, rating = sample.labels["watch"], sample.labels["rating"]
    p = predicted["watch"][:, 0]
    by_hand = -0.9 * np.log(np.where(watch == 1, p, 1 - p))
    # As trained: the squared error of the standardised label.
    deviations = (predicted["rating"][:, 0] - rating) / np.nanstd(
        train["rating"]
    )
    error = np.nan_to_num(deviations**2)
    np.testing.assert_allclose(losses, by_hand + 0.1 * error, rtol=1e-4)


def test_dense_and_sparse_inference_use_the_same_logits(
    trained: dict[str, Trained],
) -> None:
    for name, own in (("softmax", "dense"), ("top-k", "sparse")):
        run = trained[name]
        both = dense_and_sparse(run)
        weights = run.config.task_weights
        expected = losses_of_rows(run.loaded, run.sample, weights)
        np.testing.assert_allclose(both[own], expected, rtol=1e-5)
        other = "dense" if own == "sparse" else "sparse"
        assert np.abs(both[other] - expected).max() > 1e-6
    assert dense_and_sparse(trained["comet"]) == {}


def test_the_distance_of_the_distributions(
    trained: dict[str, Trained],
) -> None:
    section = loss_distributions(list(trained.values()))
    assert section is not None
    (table,), (own, beside) = section.tables, section.pictures
    assert table.header == [
        *("model", "dense loss x 100", "sparse loss x 100", "WD x 100"),
        "WD of dense to softmax x 100",
        "WD of sparse to softmax x 100",
    ]
    losses = {
        name: dense_and_sparse(trained[name]) for name in ("softmax", "top-k")
    }
    classical = losses["softmax"]["dense"]
    for (name, *cells), both in zip(table.rows, losses.values(), strict=True):
        pairs = [
            (both["dense"], both["sparse"]),
            (both["dense"], classical),
            (both["sparse"], classical),
        ]
        distances = [100 * wasserstein_distance(*pair) for pair in pairs]
        assert cells[2:] == [f"{distance:.2f}" for distance in distances], name
    assert table.rows[0][4] == "0.00"
    lost = 100 * (losses["top-k"]["sparse"] - losses["top-k"]["dense"]).mean()
    assert f"top-k {lost:+.2f} ± " in own.caption
    assert len(own.figure.axes) == 2
    (axis,) = beside.figure.axes
    assert axis.get_title() == "top-k"
    assert axis.get_legend_handles_labels()[1] == ["dense", "sparse", "softmax"]


def test_without_a_softmax_there_is_no_distance_to_it(
    trained: dict[str, Trained],
) -> None:
    section = loss_distributions([trained["top-k"], trained["comet"]])
    assert section is not None
    assert section.tables[0].header[-1] == "WD x 100"
    assert len(section.pictures) == 1


def test_embeddings_are_coloured_by_the_top_expert(
    trained: dict[str, Trained],
) -> None:
    run = trained["top-k"]
    features, top = embedded_rows(run.loaded, run.sample.inputs)
    assert features.shape == (40, 17)
    gate = run.loaded.mixture.gates["watch"]
    assert isinstance(gate, TopKGate)
    logits = ops.convert_to_numpy(gate.compute_logits(features))
    np.testing.assert_array_equal(top["watch"], logits.argmax(axis=1))


def test_top_expert_of_moesart_is_that_with_the_largest_logit(
    tiny: Dataset,
) -> None:
    """Its weights are all 1 / k, of which argmax takes the first."""
    config = TrainConfig("synthetic", "run", gate="moesart", num_experts=4)
    model = build_ranker(resolve_config(config, tiny.schema), tiny)
    inputs = model.encode(tiny.split("validation"))
    features, top = embedded_rows(model, inputs)
    for task, gate in model.mixture.gates.items():
        logits = ops.convert_to_numpy(gate.compute_logits(features))
        np.testing.assert_array_equal(top[task], logits.argmax(axis=1))
        first = ops.convert_to_numpy(gate(features)).argmax(axis=1)
        assert (top[task] != first).any()


@pytest.fixture
def _umap_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba compiles it for several times as long as it takes on few rows.

    Nobody looks at where they are, which is all that its 500 epochs change.
    """
    monkeypatch.setattr("numba.config.DISABLE_JIT", True)
    quick = partial(import_module("umap").UMAP, n_epochs=5)
    monkeypatch.setattr("umap.UMAP", quick)


@pytest.mark.usefixtures("_umap_is_quick")
def test_embeddings_of_several_runs_are_one_figure(
    trained: dict[str, Trained],
) -> None:
    section = embeddings([trained["top-k"], trained["softmax"]])
    assert section is not None
    (picture,) = section.pictures
    panels = picture.figure.axes
    assert [panel.get_title() for panel in panels] == [
        *("top-k: watch", "top-k: rating"),
        *("softmax: watch", "softmax: rating"),
    ]
    for panel in panels:
        drawn = [len(points.get_offsets()) for points in panel.collections]
        assert sum(drawn) == 40


@pytest.mark.parametrize("n", [1, 10, 16, 40])
def test_no_two_experts_have_one_colour(n: int) -> None:
    colours = expert_colours(np.repeat(3 * np.arange(n), 2))
    assert list(colours) == list(range(0, 3 * n, 3))
    assert len({tuple(to_rgba(colour)) for colour in colours.values()}) == n


def test_experts_shared_by_tasks(trained: dict[str, Trained]) -> None:
    run = trained["top-k"]
    features, _ = run.loaded.mixture_inputs(run.sample.inputs, training=False)
    chosen = []
    for task in ("watch", "rating"):
        gate = run.loaded.mixture.gates[task]
        assert isinstance(gate, TopKGate)
        logits = ops.convert_to_numpy(gate.compute_logits(features))
        chosen.append([set(row) for row in logits.argsort(axis=1)[:, 2:]])
    pairs = zip(*chosen, strict=True)
    by_hand = np.mean([len(a & b) / len(a | b) for a, b in pairs])
    overlap = overlap_of_tasks(run.loaded, run.sample.inputs)
    assert overlap["watch"] == pytest.approx([1, by_hand])
    assert overlap["rating"] == pytest.approx([by_hand, 1])
    section = shared_experts(list(trained.values()))
    assert section is not None
    assert [picture.caption.split(":")[0] for picture in section.pictures] == [
        *("comet", "softmax", "top-k")
    ]
    shared = f"watch and rating share {by_hand:.2f}."
    assert section.pictures[2].caption.endswith(shared)
    softmax = section.pictures[1].figure.axes[0]
    assert [text.get_text() for text in softmax.texts] == ["1.00"] * 4


def test_the_tasks_that_share_most_and_least_are_named() -> None:
    overlap = {
        "a": np.array([1, 0.2, 0.9]),
        "b": np.array([0.2, 1, 0.1]),
        "c": np.array([0.9, 0.1, 1]),
    }
    assert in_words(overlap) == (
        "Most is shared by a and c, 0.90, least by b and c, 0.10; the mean of "
        "the 3 pairs is 0.40."
    )


def test_runs_without_a_model_are_left_out(tmp_path: Path) -> None:
    write_run(tmp_path / "run", "softmax", 0.4)
    runs = read_trained([tmp_path])
    assert flops(runs) is None
    assert loss_distributions(runs) is None
    assert embeddings(runs) is None
    assert shared_experts(runs) is None
