import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import keras_hub
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.pre_tokenizers import ByteLevel

from keras_moe.layers import HashGate
from recsys.errors import FileError
from studies.compared_decoders import DENSE
from studies.compared_decoders import EXPERT_CHOICE
from studies.compared_decoders import Sizes
from studies.compared_decoders import create_gate
from studies.compared_decoders import load_preset
from studies.compared_decoders import plan
from studies.expert_choice import add_steps_to_dense
from studies.expert_choice import main
from studies.experts_per_token import distribution

TEXT = "".join(
    f" = Cat {n} = \n The cat of {n} sat on the <unk> mat . \n"
    for n in range(10)
)


def experts_per_token(model: Any) -> float:
    gate = create_gate(model, "threshold")
    if isinstance(gate, HashGate):
        return 1
    return gate.experts_per_row or gate.num_experts


def test_all_gates_cost_as_much_and_hold_as_much() -> None:
    sizes = Sizes()
    dense, *routed = plan("gates", sizes)
    assert dense["model"] == DENSE
    assert len(routed) == 6
    for model in routed:
        units: Any = model["units"]
        assert units * experts_per_token(model) == sizes.intermediate_dim
        experts: Any = model["experts"]
        assert experts * units == 16 * 128


def test_capacity_factors_have_the_same_experts() -> None:
    models = plan("capacity", Sizes())
    assert {(m["experts"], m["units"]) for m in models} == {(16, 128)}
    factors = [m["capacity"] for m in models if m["model"] == EXPERT_CHOICE]
    assert factors == [0.5, 1, 2]


def test_numbers_of_experts_cost_as_much() -> None:
    models = plan("experts", Sizes())
    assert {m["experts"] for m in models} == {4, 8, 16, 32, 64}
    costs = {(m["units"], experts_per_token(m)) for m in models}
    assert costs == {(128, 2)}


@given(st.lists(st.integers(0, 9), min_size=1))
def test_a_distribution_counts_every_token(counts: list[int]) -> None:
    shares = distribution(np.array(counts))
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["2"] == pytest.approx(counts.count(2) / len(counts))
    more = sum(count >= 5 for count in counts)
    assert shares["5+"] == pytest.approx(more / len(counts))


def test_steps_until_the_perplexity_of_dense_models() -> None:
    results = pd.DataFrame(
        {
            "model": [DENSE, DENSE, "top-2", "switch"],
            "perplexity@10": [30.0, 40, 15, 50],
            "perplexity@20": [10.0, 20, 12, 16],
            "perplexity": [10.0, 20, 12, 16],
            "step ms": [100.0] * 4,
        }
    )
    found = add_steps_to_dense(results)  # The mean is 15.
    np.testing.assert_array_equal(found["steps"], [20, np.nan, 10, np.nan])
    np.testing.assert_array_equal(found["s"], [2, np.nan, 1, np.nan])


@pytest.fixture
def wikitext(tmp_path: Path) -> Path:
    for split in ("valid", "test"):
        (tmp_path / f"wiki.{split}.tokens").write_text(TEXT)
    return tmp_path


def smoke(wikitext: Path, *options: str) -> list[dict[str, Any]]:
    out = wikitext / "out"
    main(
        [
            *(
                "--data",
                str(wikitext),
                "--train",
                "valid",
                "--evaluate",
                "test",
            ),
            *("--seeds", "1", "--out", str(out), "--smoke", *options),
        ]
    )
    return json.loads((out / "results.json").read_text())


def check_shares(row: dict[str, Any], prefix: str) -> None:
    names: Sequence[str] = list(distribution(np.zeros(1, int)))
    shares = [row[f"{prefix}share {name}"] for name in names]
    assert sum(shares) == pytest.approx(1)


@pytest.mark.draws
@pytest.mark.slow
@pytest.mark.once("torch")
@pytest.mark.skipif(
    keras.backend.backend() == "jax", reason="compiles for a minute"
)
def test_smoke(wikitext: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = ["dense", "top-2", "expert choice", "hash"]
    if keras.backend.backend() == "tensorflow":
        del models[1::2]  # Each is compiled for seconds.
    rows = smoke(wikitext, "--models", *models)
    assert [row["model"] for row in rows] == models
    for row in rows:
        assert 1 < row["perplexity"] < 1000
        assert row["perplexity"] == row["perplexity@4"]
    by_name = {row["model"]: row for row in rows}
    if "top-2" in by_name:
        assert by_name["top-2"]["experts per token"] == 2
        assert by_name["top-2"]["share 2"] == 1
    choice = by_name["expert choice"]
    # 4 experts take 2 of 4 sequences of 8 tokens each, twice over.
    assert choice["batch experts per token"] == pytest.approx(2)
    assert choice["batch load"] == pytest.approx(1)
    for prefix in ("", "batch "):
        check_shares(choice, prefix)
    out = wikitext / "out"
    assert (out / "experts_per_token.png").exists()
    assert (out / "models" / "expert-choice-4-2.0-0.keras").exists()
    printed = capsys.readouterr().out
    assert "Models start from random weights." in printed
    assert "| expert choice | 4 | 8 | 2.0 | 1 |" in printed


def save_preset(folder: Path) -> keras_hub.models.GPT2Backbone:
    """Saves a random backbone, and byte pairs, in keras-hub's layout."""
    backbone = keras_hub.models.GPT2Backbone(300, 2, 2, 8, 24, 0.0, 16)
    backbone.save_to_preset(str(folder))
    files = folder / "assets" / "tokenizer"
    files.mkdir(parents=True)
    tokens = ["<|endoftext|>", *sorted(ByteLevel.alphabet()), "th", "the"]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    (files / "vocabulary.json").write_text(json.dumps(vocabulary))
    (files / "merges.txt").write_text("#version: 0.2\nt h\nth e\n")
    return backbone


@pytest.mark.slow
@pytest.mark.once("torch")
def test_a_preset_is_what_models_start_from(
    wikitext: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preset = wikitext / "preset"
    backbone = save_preset(preset)
    loaded = load_preset(preset)
    np.testing.assert_array_equal(
        loaded.token_embedding.embeddings, backbone.token_embedding.embeddings
    )
    models = ("--models", "dense", "top-2")
    rows = smoke(wikitext, "--preset", str(preset), *models)
    # Half of the preset's width.
    assert [row["units"] for row in rows] == [None, 12]
    assert f"start from the preset in {preset}" in capsys.readouterr().out
    (preset / "config.json").write_text("{")
    with pytest.raises(FileError, match=f"{preset}.*a GPT-2 backbone"):
        load_preset(preset)


@pytest.mark.slow
@pytest.mark.once("torch")
def test_a_study_goes_on_where_it_was(wikitext: Path) -> None:
    options = ("--study", "gates", "--models", "dense")
    first = smoke(wikitext, *options)
    assert smoke(wikitext, *options) == first
