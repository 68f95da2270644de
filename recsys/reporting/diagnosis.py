"""What the experts of a run do, measured: tables, and what is wrong."""

from collections.abc import Sequence

import numpy as np

from recsys.files.json_files import JsonObject
from recsys.measuring.curves import read_history
from recsys.measuring.epoch_choice import EpochChoice
from recsys.models.expert_diagnosis import ExpertBank
from recsys.models.expert_diagnosis import ExpertDiagnosis
from recsys.models.expert_diagnosis import diagnose
from recsys.reporting.expert_findings import MOST_LISTED
from recsys.reporting.expert_findings import Finding
from recsys.reporting.expert_findings import expert_name
from recsys.reporting.expert_findings import findings
from recsys.reporting.section import Section
from recsys.reporting.section import Table
from recsys.reporting.trained import Trained
from recsys.reporting.trained import titled_best_runs


def diagnosis(trained: Sequence[Trained]) -> Section | None:
    """Diagnoses the experts of the best run of each model.

    Measured on the run's sample of the validation split. `Section.values` has
    all values.

    Args:
        trained: The finished trainings; the best of each model counts, where
            it has experts.
    """
    sentences: list[str] = []
    tables: list[Table] = []
    runs: list[JsonObject] = []
    settings = {run.setting for run in trained}
    for title, run in titled_best_runs(trained):
        if not run.has_predictions:
            continue
        sample, weights = run.sample, _task_weights(run)
        measured = diagnose(run.loaded, sample.inputs, sample.labels, weights)
        if not measured.banks:
            continue
        model_findings = list(findings(run.config, measured))
        name = title if len(settings) > 1 else run.model
        sentences += _sentences(name, model_findings)
        tables += [_of_gates(title, measured), _of_experts(title, measured)]
        runs.append(
            {
                "model": run.model,
                "setting": run.setting,
                "run": str(run.run.folder),
                "findings": [finding._asdict() for finding in model_findings],
                "task_weights": weights,
                **_values(measured),
            }
        )
    text = (
        "Measured on a sample of the validation split, in percent. Load: the "
        "share of the rows that give an expert weight. Gradient: the share of "
        "a task in the norms of the gradients, by an expert's weights, of the "
        "tasks' losses times their weights; in the table of gates, by the "
        "weights of all experts that tasks have in common. Dead units: the "
        "share of an expert's units that are zero on all rows it computes. "
        "Commonest set: the share of the rows that take the most frequent set "
        "of experts. Information: what an expert tells of its row, in bits, at "
        "most the logarithm of the number of experts."
    )
    if not runs:
        return None
    return Section(
        "Diagnosis",
        text,
        tables,
        findings=sentences,
        values={"runs": runs},
    )


def _task_weights(run: Trained) -> dict[str, float]:
    """The weights of the losses in the epoch that is kept."""
    weights = dict(run.config.task_weights)
    if run.config.weighting == "fixed" or not run.run.history.is_file():
        return weights
    history = read_history(run.run.history)
    choice = EpochChoice.of(run.config, run.loaded.tasks)
    row = history.iloc[choice.best_row(history)]
    return {
        task: float(row.get(f"{task}_task_weight", weight))
        for task, weight in weights.items()
    }


def _sentences(title: str, model_findings: Sequence[Finding]) -> list[str]:
    if not model_findings:
        return [
            f"{title}: no trouble found: gates tell rows apart, all experts "
            "are in use, few of their units are dead, and each task has its "
            "part of the gradient."
        ]
    return [
        f"{title}: {f.text}. What helps: {f.advice}." for f in model_findings
    ]


def _of_gates(title: str, measured: ExpertDiagnosis) -> Table:
    levels = max(bank.level for bank in measured.banks)
    shares = measured.gradient_shares()
    rows = []
    for output, uses in measured.use.items():
        for level, use in enumerate(uses, start=1):
            place = f", level {level}" if levels > 1 else ""
            bits = use.mutual_information
            rows.append(
                [
                    f"{output}{place}",
                    f"{use.experts_per_row:.2f}",
                    _percent(use.most_frequent_set),
                    "-" if bits is None else f"{bits:.3f}",
                    _percent(shares.get(output)),
                ]
            )
    header = ["gate", "experts per row", "commonest set"]
    return Table(
        f"{title}: gates", [*header, "information (bits)", "gradient"], rows
    )


def _of_experts(title: str, measured: ExpertDiagnosis) -> Table:
    outputs, tasks = list(measured.use), list(measured.banks[0].gradient)
    levels = max(bank.level for bank in measured.banks)
    rows, loads = [], []
    for bank in measured.banks:
        shares = _shares(bank)
        for number, dead in enumerate(bank.dead_units):
            of_outputs = [
                bank.load[o][number] if o in bank.load else None
                for o in outputs
            ]
            values = [*of_outputs, *(shares[t][number] for t in tasks), dead]
            rows.append(
                [expert_name(bank, number, levels), *map(_percent, values)]
            )
            loads.append(sum(load for load in of_outputs if load is not None))
    caption = f"{title}: experts"
    if len(rows) > MOST_LISTED:
        caption += (
            f", the {MOST_LISTED // 2} of the least and of the most load "
            f"of {len(rows)}"
        )
        order = np.argsort(loads, kind="stable")
        half = MOST_LISTED // 2
        rows = [rows[i] for i in sorted([*order[:half], *order[-half:]])]
    header = ["expert", *(f"{output} load" for output in outputs)]
    header += [*(f"{task} gradient" for task in tasks), "dead units"]
    return Table(caption, header, rows)


def _shares(bank: ExpertBank) -> dict[str, np.ndarray]:
    """By task, its share in the gradient of each expert; NaN without one."""
    total = np.sum(list(bank.gradient.values()), axis=0)
    divisor = np.where(total > 0, total, np.nan)
    return {task: norms / divisor for task, norms in bank.gradient.items()}


def _percent(share: float | None) -> str:
    return "-" if share is None or np.isnan(share) else f"{100 * share:.1f}"


def _values(measured: ExpertDiagnosis) -> JsonObject:
    """What is measured, ready for JSON."""
    return {
        "rows": measured.rows,
        "gradient_shares": measured.gradient_shares(),
        "gates": {
            output: [
                {
                    "experts_per_row": use.experts_per_row,
                    "most_frequent_set": use.most_frequent_set,
                    "mutual_information": use.mutual_information,
                    "dead_experts": int(use.dead.sum()),
                }
                for use in uses
            ]
            for output, uses in measured.use.items()
        },
        "banks": [
            {
                "level": bank.level,
                "name": bank.name,
                "load": _lists(bank.load),
                "weight": _lists(bank.weight),
                "gradient": _lists(bank.gradient),
                "gradient_share": _lists(_shares(bank)),
                "dead_units": _numbers(bank.dead_units),
            }
            for bank in measured.banks
        ],
    }


def _lists(arrays: dict[str, np.ndarray]) -> dict[str, list[float | None]]:
    return {name: _numbers(array) for name, array in arrays.items()}


def _numbers(array: np.ndarray) -> list[float | None]:
    """A number for each expert; JSON has no NaN."""
    return [None if np.isnan(x) else float(x) for x in array]
