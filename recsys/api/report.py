import warnings
from collections.abc import Callable
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from recsys.errors import RunError
from recsys.files.atomic import replacing
from recsys.files.output_lock import sole_writer
from recsys.reporting.baselines import baseline_runs
from recsys.reporting.baselines import baselines
from recsys.reporting.best_trials import best_trials
from recsys.reporting.diagnosis import diagnosis
from recsys.reporting.embeddings import embeddings
from recsys.reporting.flops import flops
from recsys.reporting.k_sweep import k_sweep
from recsys.reporting.load_balance import load_balance
from recsys.reporting.loss_distributions import loss_distributions
from recsys.reporting.pages import Pages
from recsys.reporting.results import results
from recsys.reporting.routing import routing
from recsys.reporting.scenarios import scenarios
from recsys.reporting.section import Section
from recsys.reporting.shared_experts import shared_experts
from recsys.reporting.trained import Trained
from recsys.reporting.trained import count_failed
from recsys.reporting.trained import read_trained
from recsys.reporting.training_flops import training_flops
from recsys.reporting.tuning_cost import tuning_cost
from recsys.reporting.zero_options import zero_options
from recsys.terminal.progress import announce
from recsys.tuning.selection import notice_of

# Each draws its part from the run folders, or has nothing to say.
SECTIONS: Sequence[Callable[[Sequence[Trained]], Section | None]] = (
    results,
    scenarios,
    best_trials,
    zero_options,
    tuning_cost,
    k_sweep,
    diagnosis,
    routing,
    load_balance,
    shared_experts,
    flops,
    training_flops,
    loss_distributions,
    embeddings,
)


def report(
    folders: Sequence[str | Path], out: str | Path, sparse_only: bool = True
) -> list[str]:
    """Reports on sweeps, comparisons and runs, without training again.

    The folder gets `index.html`, a page that holds all it shows and works
    offline, `report.md`, which says the same, `figures/` with the PNGs, and,
    where runs have experts, `diagnosis.json` with what was measured of them.

    Args:
        folders: Folders of `recsys tune`, `recsys rerun`, `recsys compare` and
            `recsys train`, in any mixture.
        out: Folder to write: new or empty.
        sparse_only: Boolean, whether to leave out the trials of sweeps whose
            gate was to become sparse and has more than k experts per example
            on average (gumbel-softmax: more than 4). The page and a warning
            say how many. Defaults to `True`.

    Returns:
        The titles of the sections.

    Raises:
        RunError: A folder holds nothing finished, or nothing is left to
            report on, or `out` is not empty, or another process is writing to
            it.

    References:
        Hazimeh et al., DSelect-k: Differentiable Selection in the Mixture of
        Experts with Applications to Multi-Task Learning, NeurIPS 2021,
        sections 3.1.3 and 3.2, appendices D.1 and D.2 (which trials count).
    """
    with sole_writer(out):
        return _report(folders, Path(out), sparse_only)


def _report(
    folders: Sequence[str | Path], out: Path, sparse_only: bool
) -> list[str]:
    if out.exists() and (out.is_file() or any(out.iterdir())):
        raise RunError(
            "`out` must be a new or empty folder. "
            f"Received: out={str(out)!r}, which is not empty"
        )
    announce("Reading the runs")
    finished = read_trained(folders)
    trained = [run for run in finished if run.counts or not sparse_only]
    notice = notice_of(
        [run.model for run in finished if not run.counts and sparse_only],
        [run.model for run in finished if run.searched],
    )
    simple = [run for folder in folders for run in baseline_runs(folder)]
    if not trained and not simple:
        raise RunError(f"expected a trial that counts. {notice}")
    if notice:
        warnings.warn(notice, stacklevel=3)
    listed = baselines(simple)
    sections = [] if listed is None else [listed]
    for number, section in enumerate(SECTIONS if trained else (), start=1):
        name = section.__name__.replace("_", " ")
        announce(f"Section {number} of {len(SECTIONS)}: {name}")
        if section is results:  # The only one that has baselines in it.
            section = partial(results, simple=simple)
        if (part := section(trained)) is not None:
            sections.append(part)
    announce("Writing the page")
    summary = _summary(finished, count_failed(folders))
    if simple:
        summary += f" Baselines: {len(simple):,}."
    pages = Pages("Report", f"{summary} {notice}".rstrip(), sections)
    with replacing(out) as unfinished:
        unfinished.mkdir()
        pages.write(unfinished)
    return [section.title for section in sections]


def _summary(trained: Sequence[Trained], failed: int) -> str:
    trials = sum(run.searched for run in trained)
    runs = len(trained) - trials
    text = (
        f"Finished: {_counted(trials, 'trial')} of sweeps, "
        f"{_counted(runs, 'other run')}."
    )
    return text + (f" Failed: {_counted(failed, 'trial')}." if failed else "")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
