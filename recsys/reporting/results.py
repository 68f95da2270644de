"""Tables of test losses in the form of the COMET and MOESART papers."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from math import ceil

import numpy as np

from recsys.baselines import RANKING
from recsys.baselines.config import read_baseline_config
from recsys.config.resolved_config import ResolvedConfig
from recsys.files.json_files import JsonMapping
from recsys.measuring.task_scores import task_scores
from recsys.reporting.section import Section
from recsys.reporting.section import Table
from recsys.reporting.statistics import mean_and_error
from recsys.reporting.statistics import p_value
from recsys.reporting.trained import Trained
from recsys.reporting.trained import by_setting
from recsys.runs.run import Run

# The gates that the papers propose, to be tested against all others.
PROPOSED = ("comet", "moesart")
SIGNIFICANT = 0.05


def results(
    trained: Sequence[Trained],
    top_share: float = 0.05,
    simple: Sequence[Run] = (),
) -> Section | None:
    """Makes a table of the test losses for each setting.

    Of a sweep, each model stands for its trials with the lowest validation
    losses; of other runs, for all of them: the seeds it was repeated with.

    Args:
        trained: The finished trainings.
        top_share: Share of a model's trials that count, at least one.
        simple: Run folders of baselines. Those that predict the tasks stand
            below the trainings on the same data with the same losses.

    References:
        Ibrahim, Chen, Hazimeh, Ponomareva, Zhao, Mazumder. COMET: Learning
        Cardinality Constrained Mixture of Experts with Trees and Local Search.
        KDD 2023, tables 2 and 7, supplement S1.3.
    """
    searched = [run for run in trained if run.searched]
    repeated = [run for run in trained if not run.searched]
    tables = [
        _table(
            f"{setting}: best {top_share:.0%} of the trials", by_model, simple
        )
        for setting, by_model in by_setting(searched).items()
        for by_model in [
            {name: best(runs, top_share) for name, runs in by_model.items()}
        ]
    ]
    tables += [
        _table(f"{setting}: mean over all runs", by_model, simple)
        for setting, by_model in by_setting(repeated).items()
    ]
    text = (
        "Means over the runs ± standard errors, on the test split; n/s: "
        "experts per example and task. An asterisk: a gate of "
        "the papers has a significantly lower loss than the best of the other "
        f"gates (one-sided unpaired t-test, p < {SIGNIFICANT})."
    )
    return Section("Results", text, tables) if tables else None


def best(runs: Sequence[Trained], share: float) -> list[Trained]:
    """Returns the share of the runs with the lowest validation losses."""
    ranked = sorted(runs, key=lambda run: run.validation_loss)
    return ranked[: max(1, ceil(share * len(runs)))]


def _table(
    caption: str,
    by_model: Mapping[str, Sequence[Trained]],
    simple: Sequence[Run],
) -> Table:
    columns = list(
        dict.fromkeys(
            name
            for runs in by_model.values()
            for run in runs
            for name in run.scores()
        )
    )
    starred = _significant(by_model)
    rows = []
    for model, runs in by_model.items():
        star = "*" if model in starred else ""
        losses = [100 * run.test_loss for run in runs]
        scores = [run.scores() for run in runs]
        cells = [
            mean_and_error(
                [values[name] for values in scores if name in values],
                2 if name == "n/s" else 4,
            )
            for name in columns
        ]
        rows.append(
            [model, str(len(runs)), star + mean_and_error(losses, 2), *cells]
        )
    config = next(iter(by_model.values()))[0].config
    rows += _simple_rows(simple, config, columns)
    return Table(caption, ["model", "runs", "test loss x 100", *columns], rows)


def _simple_rows(
    simple: Sequence[Run], config: ResolvedConfig, columns: Sequence[str]
) -> Iterator[list[str]]:
    """The rows of baselines with the data and the loss of a training."""
    by_model: dict[str, list[JsonMapping]] = {}
    for run in simple:
        baseline = read_baseline_config(run.config)
        same = (
            baseline.data,
            baseline.task_weights,
            baseline.standardize_targets,
        ) == (
            config.data,
            config.task_weights,
            config.standardize_targets,
        )
        if same and baseline.model in RANKING:
            test = run.read_metrics()["test"]
            by_model.setdefault(baseline.model, []).append(test)
    for model, tests in by_model.items():
        losses = [100 * test["loss"] for test in tests]
        scores = [task_scores(test) for test in tests]
        cells = []
        for name in columns:
            numbers = [values.get(name) for values in scores]
            known = [value for value in numbers if value is not None]
            cells.append(mean_and_error(known, 4))
        yield [model, str(len(tests)), mean_and_error(losses, 2), *cells]


def _significant(by_model: Mapping[str, Sequence[Trained]]) -> set[str]:
    """The proposed models that are better than the best of the others."""
    losses = {
        model: [run.test_loss for run in runs]
        for model, runs in by_model.items()
    }
    proposed = {
        model
        for model, runs in by_model.items()
        if runs[0].config.gate_choice.name in PROPOSED
    }
    rivals = [
        values for model, values in losses.items() if model not in proposed
    ]
    if not rivals:
        return set()
    rival = min(rivals, key=np.mean)
    tested = {model: p_value(losses[model], rival) for model in proposed}
    return {
        model
        for model, p in tested.items()
        if p is not None and p < SIGNIFICANT
    }
