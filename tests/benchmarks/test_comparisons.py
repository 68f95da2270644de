"""The files of `recsys compare` hold what they are said to compare."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from recsys import Comparison
from tests.benchmarks.conftest import BENCHMARKS

pytestmark = pytest.mark.once("torch")

FILES = [
    file
    for file in sorted(BENCHMARKS.glob("*.json"))
    if "models" in json.loads(file.read_text(encoding="utf-8"))
]

# Their losses stand beside published ones, of models without unknown ids.
PUBLISHED = ["gates.json", "movielens_1m.json", "shuffling.json"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_file_is_a_comparison(
    file: Path,
    load_script: Callable[[str], ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    comparison = Comparison.read(file)
    if comparison.base["data"] == "data/segments":  # Its tasks are looked up.
        monkeypatch.chdir(tmp_path)
        segments, _ = load_script("planted_segments").planted_segments(200)
        segments.write(comparison.base["data"])
    runs = comparison.runs(Path("out"))
    combinations = len(comparison.settings) * len(comparison.models)
    assert len(runs) == combinations * len(comparison.seeds)
    if comparison.base["data"] == "data/movielens-1m":
        schema = load_script("movielens_ranker").SCHEMA
        for run in runs:
            run.check(schema)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_file_of_ids_says_how_many_are_unknown(file: Path) -> None:
    comparison = Comparison.read(file)
    has_ids = "fashion" not in str(comparison.base.get("data", ""))
    assert ("unknown_rate" in comparison.base) == has_ids


@pytest.mark.parametrize("name", PUBLISHED)
def test_no_id_is_made_unknown_where_published_losses_are_compared(
    name: str,
) -> None:
    comparison = Comparison.read(BENCHMARKS / name)
    assert comparison.seeds == [0, 1, 2]
    for run in comparison.runs(Path("out")):
        assert run.config.unknown_rate == 0


def test_movielens_is_trained_as_by_the_published_code() -> None:
    comparison = Comparison.read(BENCHMARKS / "movielens_1m.json")
    models = ["Softmax", "Hash-r", "Top-k", "DSelect-k", "COMET", "MOESART"]
    assert list(comparison.models) == [*models, "MOESART, no lasso"]
    for run in comparison.runs(Path("out")):
        assert run.config.task_weights == {"watch": 0.9, "rating": 0.1}
        assert run.config.shuffle_buffer == 1024
        assert run.config.train_rows is None
        assert run.config.hash_tables == "shared"


def test_local_search_is_ablated_as_published() -> None:
    """COMET paper, section 4.4, with both directions of the search."""
    comparison = Comparison.read(BENCHMARKS / "local_search.json")
    assert len(comparison.seeds) == 16
    runs = {run.model: run.config for run in comparison.runs(Path("out"))}
    for gate in ("Hash-r", "Top-k", "COMET"):
        base, search = runs[gate], runs[f"{gate}+"]
        paper = runs[f"{gate}+ (paper)"]
        assert comparison.against[f"{gate}+"] == gate
        assert comparison.against[f"{gate}+ (paper)"] == gate
        assert search.gate == paper.gate == f"{base.gate}+"
        assert search.gate_options == paper.gate_options == base.gate_options
        assert search.search_normalized == "rows"
        assert paper.search_normalized == "columns"
    for config in runs.values():
        assert (config.num_experts, config.k) == (16, 2)
        assert (config.epochs, config.search_epochs) == (10, 5)
        assert config.batch_size == 512
        assert config.learning_rate == 2.5e-5
        assert config.search_entropy_weight == 1e-5
        assert config.unknown_rate == 0
        assert config.shuffle_buffer == 1024
    options = {"gamma": 0.01, "entropy_weight": 1.0}
    assert runs["COMET"].gate_options == options


def test_the_order_of_rows_is_all_that_shuffling_compares() -> None:
    """One half of its runs are those of every gate, with their seeds."""
    gates = Comparison.read(BENCHMARKS / "gates.json")
    shuffling = Comparison.read(BENCHMARKS / "shuffling.json")
    fields = {
        (run.setting, run.model, run.config.seed): {
            **run.config.to_mapping(),
            "out": "",
            "search_epochs": 0,  # None of these gates searches.
        }
        for comparison in (gates, shuffling)
        for run in comparison.runs(Path("out"))
    }
    for model in shuffling.models:
        for seed in shuffling.seeds:
            whole = fields["all rows", model, seed]
            assert whole == fields["alpha 0.9", model, seed]
            buffered = fields["1,024 rows", model, seed]
            assert buffered == {**whole, "shuffle_buffer": 1024}
