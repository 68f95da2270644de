"""Every benchmark runs, on tiny shapes, and prints what it should."""

import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest

import keras_moe.layers
from recsys.data import Dataset
from recsys.data import Schema
from recsys.data.datasets.synthetic import synthetic

FOLDER = Path(__file__).parents[2] / "benchmarks"

Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Runs a script as the command line would; returns its JSON lines."""

    def run(script: str, arguments: str) -> list[dict[str, Any]]:
        path = str(FOLDER / script)
        monkeypatch.setattr(sys, "argv", [path, *arguments.split()])
        monkeypatch.syspath_prepend(str(FOLDER))
        policy = keras.config.dtype_policy()
        try:
            runpy.run_path(path, run_name="__main__")
        finally:
            keras.config.set_dtype_policy(policy)
        lines = capsys.readouterr().out.splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    return run


# Of what follows in `sys.argv`, as `python SCRIPT ...` would.
RUN_SCRIPT = """
import os, runpy, sys
del sys.argv[0]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
TINY = "--experts 4 --rows 8 --width 4 --runs 1"


@pytest.mark.traced_once("jax")
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "arguments",
    [TINY, f"{TINY} --jit --tasks 2 --layers 2", f"{TINY} --routing zipf"],
)
def test_layer_execution(run: Run, arguments: str) -> None:
    (line,) = run("layer_execution.py", arguments)
    assert line["backend"] == keras.backend.backend()
    assert (line["rows"], line["experts"]) == (8, 4)
    for step in ("forward", "forward_backward"):
        for way in ("dense", "sparse", "auto", "limit"):
            assert line[step][f"{way}_ms"] > 0


@pytest.mark.once("torch")
def test_options_of_a_gate(run: Run) -> None:
    (line,) = run("top_k_options.py", "--experts 8 --rows 8 --width 4 --runs 1")
    assert line["times_plain"]["plain"] == 1
    for option in ("sigmoid", "bias", "groups", "deepseek_v3", "budget"):
        assert line["ms"][option] > 0


@pytest.mark.once("torch")
def test_startup_without_keras(run: Run) -> None:
    python, program = run("startup.py", "--runs 1 --of python help")
    assert (python["command"], program["command"]) == ("python", "help")
    assert 0 < python["most"] < program["least"]


@pytest.mark.once("torch")
@pytest.mark.slow
@pytest.mark.usefixtures("warm_python")
def test_startup(run: Run) -> None:
    lines = run("startup.py", "--runs 1")
    assert [line["command"] for line in lines] == [
        *("python", "help", "keras", "first step")
    ]
    for line in lines:
        assert 0 < line["least"] <= line["cpu_seconds"] <= line["most"]


@pytest.mark.once("torch")
def test_peak_memory_of_one_step(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a process of its own prints.
    measured = subprocess.CompletedProcess([], 0, stdout="7\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: measured)
    (line,) = run("layer_execution.py", f"{TINY} --memory")
    for step in ("forward", "forward_backward"):
        assert line[step] == dict.fromkeys(
            ("dense_mib", "sparse_mib", "auto_mib"), 7
        )
    assert run("layer_execution.py", f"{TINY} --peak-of sparse forward") == []


@pytest.mark.draws
@pytest.mark.once("torch")
def test_the_figure_is_drawn_from_the_lines(run: Run, tmp_path: Path) -> None:
    lines = run("layer_execution.py", TINY.replace("4", "4 8", 1))
    file = tmp_path / "lines.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    run("execution_figure.py", f"{file} --out {tmp_path / 'figure.png'}")
    assert (tmp_path / "figure.png").stat().st_size > 1000


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("script", "arguments", "wanted"),
    [
        (
            "break_even.py",
            "--rows 4 --experts 4 --k 1 --width 4 --runs 1",
            "estimate",
        ),
        (
            "break_even.py",
            "--rows 4 --experts 4 --k 1 --width 4 --runs 1 --lists",
            "estimate",
        ),
        (
            "break_even.py",
            "--rows 4 --experts 4 --k 4 --width 4 --runs 1 --planned 1",
            "auto_ms",
        ),
        ("comet_descent.py", "--experts 4 --rows 8 --width 4", "descent_ms"),
        (
            "list_experts.py",
            "--kind cnn dense --experts 4 --k 1 --batch 4 --runs 1",
            "forward_backward",
        ),
        (
            "ranker_step.py",
            "--experts 4 --batch 8 --steps 1 --runs 1",
            "times_the_limit",
        ),
        (
            "inference.py",
            "--experts 4 6 --batch 2 --seconds 0.01",
            "times_the_first",
        ),
        (
            "serving.py",
            "--parts models --experts 4 --batch 2 --seconds 0.01",
            "sparse",
        ),
        ("moesart_bias.py", "--experts 4 --k 2 --samples 64", "bias"),
    ],
)
def test_other_scripts(
    run: Run, script: str, arguments: str, wanted: str
) -> None:
    lines = run(script, arguments)
    assert lines
    assert all(wanted in line for line in lines)


@pytest.mark.skipif(
    keras.backend.backend() != "jax",
    reason="keras.distribution splits a batch on JAX",
)
def test_scaling(run: Run) -> None:
    (line,) = run("scaling.py", f"{TINY} --devices 1")
    for variant in ("sparse", "experts", "partitioner", "dense"):
        assert line[f"{variant}_cpu_ms"] > 0
        assert line[f"{variant}_times_the_first"] == 1
    # Alone, nothing is sent.
    assert line["sparse_sent_kb"] == line["experts_least_kb"] == 0
    lines = run(
        "scaling_model.py",
        "--check --devices 1 --rows 8 --experts 4 --width 4 --runs 1",
    )
    assert {line["variant"] for line in lines} == {"sparse", "experts"}
    assert all(line["predicted_cpu_ms"] > 0 for line in lines)


@pytest.mark.once("torch")
def test_a_model_of_scaling(run: Run) -> None:
    lines = run("scaling_model.py", "")
    found = {
        (line["machine"], line["devices"], line["experts"]): line
        for line in lines
    }
    assert len(found) == len(lines) == 16
    one, other = (found["h100", 8, way] for way in ("on each", "split"))
    assert one["experts_ms"] == other["experts_ms"]
    assert one["exchange_ms"] == other["gradients_ms"] == 0
    # 256 experts of 1,024 x 1,024 and their biases, weight and two moments.
    weights = 256 * 1025 * 1024 * 3 * 4 / 1e9
    assert one["held_gb"] - other["held_gb"] == pytest.approx(
        weights * 7 / 8, abs=0.11
    )


@pytest.mark.skipif(
    keras.backend.backend() != "jax",
    reason="keras.distribution splits a batch on JAX",
)
def test_scaling_needs_devices(run: Run) -> None:
    with pytest.raises(SystemExit, match="at most"):
        run("scaling.py", f"{TINY} --devices 99")


@pytest.mark.slow
@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="SavedModels are written under TensorFlow",
)
def test_load_of_a_server(run: Run) -> None:
    """It answers all requests, and again after it has been killed."""
    lines = run(
        "serving.py",
        "--parts load --experts 4 --connections 2 --killed 2 --seconds 0.2 "
        "--requests 20 --repetitions 2",
    )
    formats = ["tf_saved_model"] * 3 + ["onnx"] * 3
    assert [line["format"] for line in lines] == formats
    for load, memory, killed in (lines[:3], lines[3:]):
        for figures in (load, memory, killed["after"]):
            assert figures["requests"] > 0
            assert figures["errors"] == {}
        assert load["server_us"] > 0
        assert memory["requests"] == 20
        assert memory["before_mib"] > 0
        assert killed["errors_meanwhile"]


@pytest.mark.slow
@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="models are exported under TensorFlow",
)
def test_shedding(run: Run) -> None:
    first, *lines = run(
        "serving.py",
        "--parts shed --formats onnx --shed-width 4 --shed-rows 2 "
        "--shed-seconds 0.5",
    )
    assert list(first["ms"]) == ["1", "2", "4", "8"]
    assert [(line["what"], line["times"]) for line in lines] == [
        (what, times) for times in (1, 2, 3) for what in ("no shed", "shed")
    ]
    assert lines[0]["offered"] == lines[1]["offered"]
    for line in lines:
        assert line["requests"] > 0
        assert (line["shedding"] is None) == (line["what"] == "no shed")


@pytest.mark.slow
@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="models are exported under TensorFlow",
)
def test_hostile_requests(run: Run) -> None:
    """All are refused, and no other fails."""
    (line,) = run(
        "serving.py",
        "--parts hostile --formats onnx --hostile-seconds 1.5 --hostile 0.5",
    )
    assert line["health"]["failed"] == {}
    assert line["health"]["checks"] > 0
    assert line["ordinary"]["p50_ms"] > 0
    assert line["before_mib"] > 0
    statuses = {
        asked.rpartition(": ")[::2]: count
        for asked, count in line["answers"].items()
    }
    assert statuses["ordinary", "200"] > 0
    fits = ("ordinary", "a list for all rows, within bounds")
    for asked, status in statuses:
        assert status == "begun" or (status == "200") == (asked in fits)
        assert not status.startswith("5")


@pytest.mark.once("jax")
@pytest.mark.slow
@pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="of TensorFlow or JAX"
)
def test_profile_of_a_step() -> None:
    command = [sys.executable, str(FOLDER / "step_profile.py")]
    command += ["--experts", "4", "--batch", "8", "--steps", "2"]
    # XLA reads where to dump its programs when it starts.
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True
    )
    lines = list(map(json.loads, done.stdout.splitlines()))
    assert [line["execution"] for line in lines] == [
        "sparse",
        "limit_one_by_one",
    ]
    for line in lines:
        parts = line["parts_ms"]
        assert parts["optimizer"] > 0
        assert parts["experts"] > 0
        assert line["operations_ms"]
    assert "gates" in lines[0]["parts_ms"]
    assert "gates" not in lines[1]["parts_ms"]


# Classes with the names and arguments of those that are published.
STAND_INS = {
    "shared_bottoms/dense_bottom_with_concatenated_embeddings_no_dense": """
class DenseBottomWithConcatenatedEmbeddingsNoDense(tf.keras.layers.Layer):
    def __init__(self, config):
        super().__init__()
        self.table = tf.keras.layers.Embedding(
            config["embedding1_vocab_size"], config["embedding1_size"])
    def call(self, ids):
        return self.table(ids[:, 0])
""",
    "experts/dense_expert_dropout": """
class DenseExpertDropout(tf.keras.layers.Dense):
    def __init__(self, config):
        super().__init__(config["dense1_size"])
    def call(self, inputs, training):
        return super().call(inputs)
""",
    "gates/comet": """
class COMETGate(tf.keras.layers.Layer):
    def __init__(self, config):
        super().__init__()
        assert config["nb_experts"] == 4 and self.L2 == 0
    def call(self, inputs, training=True):
        outputs, features, permutation = inputs
        assert permutation.shape == (2, 4, 4)
        return sum(outputs)
""",
    "task_specific_heads/dense_classifier": """
class DenseClassifier(tf.keras.layers.Dense):
    def __init__(self, config):
        super().__init__(config["n_labels"], "sigmoid")
""",
    "task_specific_heads/dense_regressor": """
class DenseRegressor(tf.keras.layers.Dense):
    def __init__(self, config):
        super().__init__(config["n_labels"])
""",
}


@pytest.mark.slow
@pytest.mark.once("tensorflow")
def test_published_code_takes_its_turns(run: Run, tmp_path: Path) -> None:
    for name, source in STAND_INS.items():
        file = tmp_path / "model" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"import tensorflow as tf\n{source}")
    (line,) = run(
        "ranker_step.py",
        f"--published {tmp_path} --gate comet --execution sparse "
        "--experts 4 --batch 8 --steps 1 --runs 1",
    )
    ratio = line["published_ms"] / line["sparse_ms"]
    # All three are printed with two decimals.
    assert abs(line["faster_than_published"] - ratio) <= 0.1 * ratio + 0.01


@pytest.mark.once("torch")
def test_where_searches_of_random_logits_end(run: Run) -> None:
    published, annealed = run(
        "search_schedules.py", "--random --experts 8 --starts 5"
    )
    assert (published["schedule"], annealed["schedule"]) == (
        *("published", "annealed"),
    )
    assert published["below 1e-3"] < 1
    assert annealed["largest"] < 1e-3
    assert annealed["assignment of the logits"] == 1


@pytest.mark.once("torch")
@pytest.mark.slow
def test_schedules_are_paired_by_seed(run: Run, tmp_path: Path) -> None:
    synthetic(400, num_users=50, num_items=50).write(tmp_path / "data")
    arguments = (
        f"--data {tmp_path / 'data'} --out {tmp_path / 'runs.csv'} --seeds 2 "
        "--train-rows 60 --batch 30 --embedding-dim 2 --units 2"
    )
    lines = run("search_schedules.py", arguments)
    assert [line["model"] for line in lines[:6]] == [
        *("published", "annealed") * 2,
        *["Hash-r"] * 2,
    ]
    assert lines[1]["permutation distance"] < 1e-3
    *models, _, _, last = lines[6:]
    assert [line["of"] for line in models] == [2, 2, 2]
    assert last["pair"] == "annealed - published"
    assert last["mean"] == pytest.approx(
        models[1]["mean"] - models[0]["mean"], abs=2e-3
    )
    # Nothing is trained again.
    assert run("search_schedules.py", arguments) == lines[6:]


@pytest.mark.once("torch")
@pytest.mark.slow
def test_dense_to_sparse(run: Run, tmp_path: Path) -> None:
    synthetic(2_000, num_users=100, num_items=100).write(tmp_path / "data")
    lines = run(
        "dense_to_sparse.py",
        f"--data {tmp_path / 'data'} --epochs 1 --sampled-batches 2 "
        "--timed-steps 1 --batch 64 --runs 1",
    )
    assert lines[0]["experts_per_example"] > 0


@pytest.mark.once("torch")
@pytest.mark.slow
def test_smaller_models(run: Run, tmp_path: Path) -> None:
    synthetic(500, num_users=50, num_items=50).write(tmp_path / "data")
    lines = run(
        "smaller_models.py",
        f"--data {tmp_path / 'data'} --out {tmp_path / 'run'} --experts 4 "
        "--units 4 3 --sizes 2 --epochs 1 --runs 1",
    )
    assert [line["model"] for line in lines] == [
        *("as trained", "int8", "pruned to 2", "pruned to 2, int8"),
        *("merged to 2", "merged to 2, int8"),
    ]
    first, int8, pruned, *_ = lines
    assert first["largest_change"] == 0
    assert int8["expert_bytes"] < first["expert_bytes"]
    assert 2 * pruned["expert_bytes"] == first["expert_bytes"]


@pytest.mark.draws
@pytest.mark.once("torch")
def test_steps_over_tables_of_growing_size(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tiny = "--width 2 --batch 4 --steps 1 --runs 1"
    (alone,) = run("vocabulary.py", f"--only 9 lazy-adam {tiny}")
    assert set(alone) == {"cpu_ms", "wall_ms", "peak_mib"}
    assert min(alone.values()) > 0
    # What a process of its own prints.
    measured = subprocess.CompletedProcess([], 0, stdout=json.dumps(alone))
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: measured)
    lines = run("vocabulary.py", f"--ids 9 1000 {tiny} --largest-dense 0.00001")
    # Adam of 1,000 rows is too large: 2 * 4 * 4 * 1,000 bytes.
    assert [(line["ids"], line["optimizer"]) for line in lines] == [
        (9, "adam"),
        (9, "lazy-adam"),
        (9, "rowwise-adagrad"),
        (1000, "lazy-adam"),
        (1000, "rowwise-adagrad"),
    ]
    assert all(line.items() >= alone.items() for line in lines)
    file = tmp_path / "lines.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    run("vocabulary_figure.py", f"{file} --out {tmp_path / 'figure.png'}")
    assert (tmp_path / "figure.png").stat().st_size > 1000


@pytest.mark.slow
@pytest.mark.once("torch")
def test_a_log_that_is_read_as_it_is_needed(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options = (
        f"--out {tmp_path} --rows 3000 --train-rows 2000 --part-rows 1000 "
        "--users 1000 --items 100 --width 4 --batch 256"
    )
    # What a process of its own prints: it replaces methods of the library.
    measured = json.dumps({"rows": 1792, "input_share": 0.1})
    original = subprocess.run

    def run_command(command: list[str], **options: Any) -> Any:
        if "--only-train" not in command:
            return original(command, **options)
        return subprocess.CompletedProcess(command, 0, stdout=measured)

    monkeypatch.setattr(subprocess, "run", run_command)
    written, *read, trained = run("big_logs.py", options)
    assert written["bytes_per_row"] > 8
    assert [line["what"] for line in read] == ["read", "read and encode"]
    assert all(line["rows"] == 2000 for line in read)
    assert trained["input_share"] == 0.1
    assert len(list((tmp_path / "log").iterdir())) == 3
    split = Dataset.read(tmp_path / "data").split("train")
    assert len(split) == 2000
    assert split["user"].nunique() > split["item"].nunique() > 50
    assert split["history"].map(len).max() == 5
    assert (split["click"] >= split["buy"]).all()
    assert 0.1 < split["click"].mean() < 0.5


@pytest.mark.slow
@pytest.mark.once("torch")  # In processes of its own, which it starts first.
@pytest.mark.usefixtures("warm_python")
def test_training_on_a_log_by_few_steps(run: Run, tmp_path: Path) -> None:
    sizes = (
        f"--out {tmp_path} --rows 3000 --train-rows 2000 --part-rows 1000 "
        "--items 100"
    )
    run("planted_log.py", sizes)
    few = "--width 4 --batch 256 --steps 3 --only-train"
    # What it takes of memory is that of its process.
    command = [sys.executable, "-c", RUN_SCRIPT, str(FOLDER / "big_logs.py")]
    done = subprocess.run(
        [*command, *sizes.split(), *few.split()],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    line = json.loads(done.stdout.splitlines()[-1])
    assert line["rows"] == 3 * 256
    assert 0 < line["input_share"] < 1
    assert line["peak_mib"] == max(peak for _, peak in line["phases"].values())
    # The tables are small beside what the libraries take.
    assert 0 < line["peak_mib"] - line["above_mib"] + 1 < 3
    assert set(line["phases"]) > {"steps", "checkpoint", "validate"}


@pytest.mark.once("torch")
def test_active_neurons(run: Run) -> None:
    """The script compares the outputs itself."""
    lines = run(
        "active_neurons.py",
        "--widths 16 --keep-rates 0.25 --batches 1 2 --repeats 1 --inputs 3",
    )
    assert [(line["network"], line["inputs"]) for line in lines] == [
        ("mlp", 3),
        ("mlp", 3),
        ("block", 4),
        ("block", 4),
    ]
    for line in lines:
        for way in ("dense", "masked", "gathered"):
            assert line[way] > 0
        ratio = line["dense"] / line["gathered"]
        assert abs(line["over_dense"] - ratio) <= 0.02 * ratio + 0.01


@pytest.mark.once("torch")
def test_cold_start(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)

    def rows(count: int) -> pd.DataFrame:
        user, item = rng.integers(0, 12, count), rng.integers(0, 20, count)
        return pd.DataFrame(
            {
                "user": user,
                "item": [f"i{number}" for number in item],
                "genre": [f"g{number % 3}" for number in item],
                "watch": (user % 3 == item % 3).astype(float),
            }
        )

    schema = Schema(
        "films",
        dict.fromkeys(("user", "item", "genre"), "id"),
        {"watch": "binary"},
        item_features=["genre"],
    )
    splits = {"train": rows(300), "validation": rows(60), "test": rows(90)}
    Dataset(schema, splits).write(tmp_path / "data")
    small = {"num_experts": 2, "expert_units": [4], "epochs": 1}
    train = json.dumps(small, separators=(",", ":"))
    (line,) = run(
        "cold_start.py",
        f"--data {tmp_path / 'data'} --out {tmp_path / 'out'} --train {train}",
    )
    assert (line["held_out"], line["items"]) == (2, 20)
    assert line["recall_before"] == 0 <= line["recall_after"]
    assert line["chance"] == 0.5


@pytest.mark.once("torch")
@pytest.mark.slow
def test_budget_curve(run: Run, tmp_path: Path) -> None:
    synthetic(400, num_users=50, num_items=50).write(tmp_path / "data")
    run(
        "budget_curve.py",
        f"--data {tmp_path / 'data'} --out {tmp_path} --budgets 1 3 --seeds 1 "
        "--experts 3 --epochs 1 --train-rows 200 --train-budgets 1 3 "
        f"--figure {tmp_path / 'figure.svg'}",
    )
    lines = json.loads((tmp_path / "results.json").read_text())
    assert [(line["model"], line["budget"]) for line in lines] == [
        *[("one model", 1), ("one model", 3)],
        *[("top-k for each", 1), ("top-k for each", 3)],
    ]
    for line in lines:
        assert line["experts"] == pytest.approx(line["budget"])
        assert line["loss"] > 0
        assert line["cpu_us"] > 0
    run_folder = tmp_path / "budget-default-1-3-0"
    config = json.loads((run_folder / "config.json").read_text())
    assert config["gate_options"]["train_budgets"] == [1, 3]
    assert (tmp_path / "figure.svg").stat().st_size > 0


@pytest.mark.once("torch")
def test_gate_speed(run: Run) -> None:
    (line,) = run("gate_speed.py", "--experts 8 --rows 8 --width 4 --runs 1")
    for step in ("forward", "forward_backward"):
        experts = line[step]["experts_per_row"]
        assert experts["TopKGate"] == experts["int8 experts"] == 2
        assert experts["experts split in 2"] == 4
        assert experts["SoftmaxGate"] == 8
        assert experts.keys() == line[step]["ms"].keys()


@pytest.mark.once("torch")
def test_gate_speed_of_some_gates(run: Run) -> None:
    arguments = "--experts 4 --rows 8 --width 4 --runs 1 --gates ReMoEGate"
    (line,) = run("gate_speed.py", arguments)
    assert line["forward"]["ms"].keys() == {"TopKGate", "ReMoEGate"}


@pytest.mark.once("torch")
def test_gate_speed_has_every_gate(
    load_script: Callable[[str], ModuleType],
) -> None:
    bases = {"Gate", "LogitGate", "ScoredGate"}
    gates = {
        name
        for name, value in vars(keras_moe.layers).items()
        if isinstance(value, type) and issubclass(value, keras_moe.layers.Gate)
    }
    assert load_script("gate_speed").GATES.keys() == gates - bases


@pytest.mark.once("torch")
def test_gate_speed_prints_ratios_to_top_k(
    load_script: Callable[[str], ModuleType],
) -> None:
    def step(base: float, other: float) -> dict[str, Any]:
        return {
            "ms": {"TopKGate": base, "SoftmaxGate": other},
            "experts_per_row": {"TopKGate": 2.0, "SoftmaxGate": 16.0},
        }

    steps = {"forward_backward": step(4.0, 6.0), "forward": step(2.0, 5.0)}
    assert load_script("gate_speed").table({16: steps}).splitlines() == [
        "| | n = 16 |",
        "|---|---|",
        "| TopKGate | 2.0 ms / 4.0 ms (2 / 2) |",
        "| SoftmaxGate | 2.50 / 1.50 (16 / 16) |",
    ]


@pytest.mark.once("torch")
def test_shared_experts(run: Run) -> None:
    (line,) = run(
        "shared_experts.py", "--experts 4 --rows 8 --shared 2 --runs 1"
    )
    for step in ("forward", "forward_backward"):
        assert line[f"{step}_times_beside"]["beside"] == 1
        for way in ("none", "beside", "among", "joined"):
            assert line[f"{step}_ms"][way] > 0


@pytest.mark.once("torch")
def test_budget_times(run: Run) -> None:
    lines = run("budget_times.py", "--width 4 --rows 8")
    assert [line["budget"] for line in lines] == [1, 2, 4, 8]
    for line in lines:
        assert line["number_ms"] >= 0
        assert line["dense_ms"] >= 0
