import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recsys import Schema
from recsys import TrainConfig
from recsys.config.resolved_config import ResolvedConfig
from recsys.metrics import ExpertUse
from recsys.models.expert_diagnosis import ExpertBank
from recsys.models.expert_diagnosis import ExpertDiagnosis
from recsys.reporting.diagnosis import diagnosis
from recsys.reporting.expert_findings import Finding
from recsys.reporting.expert_findings import findings
from recsys.reporting.pages import Pages
from recsys.reporting.trained import read_trained
from recsys.runs.run import Run
from recsys.training.resolve_config import resolve_config

pytestmark = pytest.mark.once("torch")

SCHEMA = Schema("shop", {"user": "id"}, {"buy": "binary", "like": "binary"})
TASKS = ("buy", "like")


def config(**fields: Any) -> ResolvedConfig:
    fields = {"gate": "top-k", "num_experts": 4, "k": 2, **fields}
    return resolve_config(TrainConfig("synthetic", "run", **fields), SCHEMA)


def use_of(rows: list[list[float]]) -> ExpertUse:
    weights = np.array(rows)
    logs = np.log2(np.where(weights > 0, weights, 1))
    return ExpertUse(
        np.packbits(weights > 0, axis=1, bitorder="little"),
        weights.sum(axis=0),
        float(-np.sum(weights * logs)),
    )


WELL = [[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5], [0.5, 0, 0, 0.5]] * 4


def measured(
    buy: list[list[float]] = WELL,
    like: list[list[float]] = WELL,
    gradient: dict[str, list[float]] | None = None,
    dead_units: tuple[float, ...] = (0.0, 0.1, 0.0, 0.2),
    static: bool = False,
) -> ExpertDiagnosis:
    weights = {"buy": np.array(buy), "like": np.array(like)}
    given = gradient or {"buy": [1.0] * 4, "like": [2.0] * 4}
    bank = ExpertBank(
        1,
        "experts",
        {task: (w > 0).mean(axis=0) for task, w in weights.items()},
        {task: w.mean(axis=0) for task, w in weights.items()},
        {task: np.array(norms) for task, norms in given.items()},
        np.array(dead_units),
    )
    use = {"buy": [use_of(buy)], "like": [use_of(like)]}
    return ExpertDiagnosis(len(buy), [bank], use, static)


def found(of: ExpertDiagnosis, **fields: Any) -> list[Finding]:
    return list(findings(config(**fields), of))


def test_of_a_mixture_that_works_nothing_is_found() -> None:
    assert found(measured()) == []


def test_a_collapsed_gate() -> None:
    collapsed = [[0.5, 0.5, 0.0, 0.0]] * 12
    (finding,) = found(measured(buy=collapsed))
    assert finding == Finding(
        "collapse",
        "the gate of 'buy' routes by nothing, 100% of rows take the same "
        "experts",
        "--gate-option load_balance_loss_weight=0.01 or "
        "--gate-option balance=bias",
    )
    # With gates over all experts by design, it is none.
    assert found(measured(buy=collapsed, static=True)) == []
    comet = {"gate": "comet", "gate_options": {"entropy_weight": 0.1}}
    (finding,) = found(measured(buy=collapsed), **comet)
    assert finding.advice == (
        "--gate-option entropy_weight=0.001 or "
        "--gate-option importance_loss_weight=0.01"
    )


def test_a_dead_expert() -> None:
    three = [[0.5, 0.5, 0.0, 0.0], [0.0, 0.5, 0.5, 0.0]] * 6
    of = measured(three, three, dead_units=(0.0, 0.0, 0.0, np.nan))
    (finding,) = found(of)
    assert finding.kind == "dead experts"
    assert finding.text == "no row gives weight to the expert 3"
    assert finding.advice.endswith(
        "balance=bias; or leave them out, recsys compress --experts 3"
    )
    options = {"balance": "bias", "load_balance_loss_weight": 0.1}
    (finding,) = found(of, gate_options=options)
    assert finding.advice.startswith(
        "--gate-option load_balance_loss_weight=1; or"
    )
    # One task that uses it is enough.
    assert found(measured(three, WELL)) == []


def test_dead_units() -> None:
    (finding,) = found(measured(dead_units=(0.5, 0.49, 0.9, np.nan)))
    assert finding.kind == "dead units"
    assert finding.text == (
        "50% or more of the units are zero on all rows in 2 experts: 0, 2"
    )


@pytest.mark.parametrize(
    ("buy", "like", "shares"),
    [
        (1.0, 0.0, "'buy' 100.0%, 'like' 0.0%"),
        (1.0, 4.0, "'like' 80.0%, 'buy' 20.0%"),
        (1.0, 3.9, None),
    ],
)
def test_a_task_without_gradient(
    buy: float, like: float, shares: str | None
) -> None:
    of = measured(gradient={"buy": [buy] * 4, "like": [like] * 4})
    texts = [(f.kind, f.text.partition("tasks, ")[2]) for f in found(of)]
    assert texts == ([] if shares is None else [("gradient", shares)])
    for finding in found(of, weighting="uncertainty"):
        assert finding.advice.startswith("another --weighting")
    # A task that is not trained has none by design.
    assert found(of, task_weights={"buy": 1.0, "like": 0.0}) == []


def test_one_of_many_tasks_without_gradient() -> None:
    """The others have no more than their part."""
    of = measured()
    names = [*TASKS, "share", "follow"]
    norms = [1.0, 1.0, 1.0, 0.05]
    (bank,) = of.banks
    bank = replace(
        bank,
        gradient={
            task: np.full(4, norm)
            for task, norm in zip(names, norms, strict=True)
        },
    )
    weights = dict.fromkeys(names, 0.25)
    many = replace(config(), task_weights=weights)
    of = replace(of, banks=[bank], use=dict.fromkeys(names, of.use["buy"]))
    (finding,) = findings(many, of)
    assert finding.text.endswith("'share' 32.8%, 'follow' 1.6%")
    bank.gradient["follow"][:] = 0.2
    assert list(findings(many, of)) == []


@pytest.fixture(scope="module")
def planted(
    run: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """A trained run, and a copy in which the last expert gets no row."""
    folder = tmp_path_factory.mktemp("planted") / "dead"
    source, copy = Run(run), Run(folder)
    folder.mkdir()
    for file in ("config.json", "metrics.json", "sample.npz"):
        (folder / file).write_bytes((run / file).read_bytes())
    model = source.load_model()
    for gate in model.mixture.gates.values():
        gate.bias.assign([0.0, 0.0, 0.0, -1e4])
    copy.save_model(model)
    return {"trained": run, "dead": folder}


def test_a_report_has_the_values(
    planted: dict[str, Path], tmp_path: Path
) -> None:
    section = diagnosis(read_trained([planted["dead"]]))
    assert section is not None
    Pages("Report", "", [section]).write(tmp_path)
    content = json.loads((tmp_path / "diagnosis.json").read_text())
    (values,) = content["runs"]
    assert values["run"] == str(planted["dead"])
    assert values["rows"] == 40
    (bank,) = values["banks"]
    sample = read_trained([planted["dead"]])[0].sample
    model = Run(planted["dead"]).load_model()
    features, _ = model.mixture_inputs(sample.inputs, training=False)
    for task, gate in model.mixture.gates.items():
        load = np.mean(np.asarray(gate(features).detach()) != 0, axis=0)
        assert bank["load"][task] == pytest.approx(load.tolist())
        assert bank["load"][task][3] == 0
    assert bank["dead_units"][3] is None
    kinds = {finding["kind"] for finding in values["findings"]}
    assert "dead experts" in kinds
    text = (tmp_path / "report.md").read_text()
    _, _, part = text.partition("## Diagnosis\n\n- ")
    assert "top-k: no row gives weight to the expert 3. What helps: " in part
    page = (tmp_path / "index.html").read_text()
    assert "no row gives weight to the expert 3" in page


def test_the_tables(planted: dict[str, Path]) -> None:
    section = diagnosis(read_trained([planted["dead"]]))
    assert section is not None
    gates, experts = section.tables
    assert [row[0] for row in gates.rows] == ["watch", "rating"]
    assert [row[1] for row in gates.rows] == ["2.00", "2.00"]
    assert sum(float(row[-1]) for row in gates.rows) == pytest.approx(100)
    assert experts.header == [
        *("expert", "watch load", "rating load"),
        *("watch gradient", "rating gradient", "dead units"),
    ]
    assert [row[0] for row in experts.rows] == ["0", "1", "2", "3"]
    assert experts.rows[3][1:] == ["0.0", "0.0", "-", "-", "-"]
    for row in experts.rows[:3]:
        assert float(row[3]) + float(row[4]) == pytest.approx(100, abs=0.11)


def test_weights_of_tasks_are_those_of_the_epoch_that_is_kept(
    planted: dict[str, Path], new_run: Any
) -> None:
    folder = new_run(weighting="uncertainty", epochs=2)
    section = diagnosis(read_trained([folder]))
    assert section is not None
    (values,) = section.values["runs"]
    lines = (folder / "history.csv").read_text().splitlines()
    rows = [
        dict(zip(lines[0].split(","), x.split(","), strict=True))
        for x in lines[1:]
    ]
    best = min(rows, key=lambda row: float(row["val_loss"]))
    for task, weight in values["task_weights"].items():
        assert weight == pytest.approx(float(best[f"{task}_task_weight"]))


def test_runs_without_experts_or_a_model_are_left_out(
    planted: dict[str, Path], tmp_path: Path, new_run: Any
) -> None:
    assert diagnosis(read_trained([new_run(architecture="shared-bottom")])) is (
        None
    )
    for file in ("config.json", "metrics.json"):
        content = (planted["dead"] / file).read_bytes()
        (tmp_path / file).write_bytes(content)
    assert diagnosis(read_trained([tmp_path])) is None
