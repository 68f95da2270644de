from pathlib import Path

import keras
import pandas as pd
import pytest

from keras_moe.layers import BudgetGate
from keras_moe.layers import Gate
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from studies.budgets import BUDGET_GATE
from studies.budgets import MODELS
from studies.budgets import ONE
from studies.budgets import SOFTMAX
from studies.budgets import TOP_K
from studies.budgets import by_budget
from studies.budgets import create_gate
from studies.budgets import main
from studies.budgets import plan
from studies.budgets import table

TEXT = "".join(
    f" = Cat {n} = \n The cat of {n} sat on the <unk> mat . \n"
    for n in range(10)
)


def test_one_model_is_trained_once_and_the_others_for_each_budget() -> None:
    planned = plan(MODELS, [1, 3], seeds=[0, 5], steps=9, inner=SOFTMAX)
    assert len(planned) == 2 * (1 + 2 + 2)
    first = [(m["model"], m["budget"]) for m in planned if m["seed"] == 5]
    assert first == [
        (ONE, None),
        (BUDGET_GATE, 1),
        (BUDGET_GATE, 3),
        (TOP_K, 1),
        (TOP_K, 3),
    ]
    assert {m["steps"] for m in planned} == {9}


def test_gates_train_for_the_budgets_that_they_are_measured_at() -> None:
    def gate(model: str, inner: str = SOFTMAX) -> Gate:
        settings = {"model": model, "inner": inner}
        return create_gate(settings, 8, budget=3, budgets=[1, 3, 6])

    one, each, top = gate(ONE), gate(BUDGET_GATE), gate(TOP_K)
    assert isinstance(one, BudgetGate)
    assert (one.target, one.train_budgets) == (3, (1, 6))
    assert isinstance(one.gate, SoftmaxGate)
    assert isinstance(each, BudgetGate)
    assert (each.target, each.train_budgets) == (3, (3, 3))
    assert isinstance(top, TopKGate)
    assert top.k == 3
    around_top_k = gate(ONE, TOP_K)
    assert isinstance(around_top_k, BudgetGate)
    assert around_top_k.gate.k == 6
    assert around_top_k.gate.load_balance_loss_weight == 0.01


def test_differences_are_paired_by_seed() -> None:
    one = {"loss@1": 1.0, "experts@1": 1.0, "loss@2": 3.0, "experts@2": 2.25}
    results = pd.DataFrame(
        [
            {"model": ONE, "budget": None, "seed": 0, **one},
            {"model": ONE, "budget": None, "seed": 1, **one, "loss@1": 2.2},
            *(
                {
                    "model": TOP_K,
                    "budget": budget,
                    "seed": seed,
                    f"loss@{budget}": 2.0,
                    f"experts@{budget}": float(budget),
                }
                for budget in (1, 2)
                for seed in (0, 1)
            ),
        ]
    )
    rows = by_budget(results)
    assert len(rows) == 8
    assert rows["loss"].sum() == 1 + 2.2 + 2 * 3 + 4 * 2
    *_, first, second = table(results).splitlines()
    # -50 % and + 10 %, with a standard error of 60 / 2.
    assert first.startswith("| 1 | 1.00 | 1.00 | 1.6000 ± 0.6000 |")
    assert first.endswith("| -20.00 ± 30.00 |")
    assert second.startswith("| 2 | 2.25 | 2.00 | 3.0000 ± 0.0000 |")
    assert second.endswith("| 50.00 ± 0.00 |")


@pytest.mark.slow
@pytest.mark.once("torch")
@pytest.mark.skipif(
    keras.backend.backend() == "jax", reason="compiles for a minute"
)
def test_smoke(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for split in ("valid", "test"):
        (tmp_path / f"wiki.{split}.tokens").write_text(TEXT)
    words = ["--data", tmp_path, "--train", "valid", "--evaluate", "test"]
    words += ["--models", ONE, TOP_K, "--budgets", 1, 3, "--seeds", 0]
    words += ["--smoke", "--out", tmp_path / "out"]
    main([str(word) for word in words])
    printed = capsys.readouterr().out
    assert "| budget | experts, one model | experts, top-k |" in printed
    results = (tmp_path / "out" / "results.json").read_text()
    rows = pd.read_json(tmp_path / "out" / "results.json").set_index("model")
    assert rows.loc[ONE, "experts@1"] == 1
    assert 1.5 < rows.loc[ONE, "experts@3"] <= 4
    assert rows.loc[TOP_K, "experts@3"].dropna().tolist() == [3]
    # Uniform guesses of 261 bytes have 5.56.
    assert rows.loc[ONE, ["loss@1", "loss@3"]].between(4, 5.6).all()
    main([str(word) for word in words])
    assert (tmp_path / "out" / "results.json").read_text() == results
