import shutil
import warnings
from collections.abc import Callable
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from recsys.errors import RunError
from recsys.errors.shown import printable
from recsys.files.atomic import replacing
from recsys.files.folders import check_vacant
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
from recsys.reporting.pages import PAGE
from recsys.reporting.pages import Pages
from recsys.reporting.parallel_coordinates import parallel_coordinates
from recsys.reporting.results import results
from recsys.reporting.routing import routing
from recsys.reporting.run.calibration import calibration
from recsys.reporting.run.curves import curves
from recsys.reporting.run.importance import importance
from recsys.reporting.run.routing_over_time import routing_over_time
from recsys.reporting.run.slices import slices
from recsys.reporting.run.summary import summary
from recsys.reporting.scenarios import scenarios
from recsys.reporting.section import Section
from recsys.reporting.shared_experts import shared_experts
from recsys.reporting.trained import Trained
from recsys.reporting.trained import count_failed
from recsys.reporting.trained import read_trained
from recsys.reporting.training_flops import training_flops
from recsys.reporting.tuning_cost import tuning_cost
from recsys.reporting.zero_options import zero_options
from recsys.runs.run import Run
from recsys.terminal.progress import announce
from recsys.tuning.selection import notice_of

# The name of a part of a report, and what makes it.
_Part = tuple[str, Callable[[], Section | None]]
# Each draws its part from the run folders, or has nothing to say.
SECTIONS: Sequence[Callable[[Sequence[Trained]], Section | None]] = (
    results,
    scenarios,
    best_trials,
    parallel_coordinates,
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
)
# The same of a single run; those above that compare runs say nothing then.
OF_A_RUN: Sequence[Callable[[Trained], Section | None]] = (
    summary,
    curves,
    calibration,
    importance,
    slices,
    routing_over_time,
)


def report(
    folders: Sequence[str | Path],
    out: str | Path | None = None,
    sparse_only: bool = True,
    with_embeddings: bool = False,
) -> list[str]:
    """Reports on a run, or on sweeps, comparisons and many runs.

    Nothing is trained again. Of a single run, the page begins with what it is
    and what it is better than, its learning curves, calibration, importance of
    features, slices, and routing over time.

    The folder gets `index.html`, a page that holds all it shows and works
    offline, `report.md`, which says the same, `figures/` with the PNGs, and,
    where runs have experts, `diagnosis.json` with what was measured of them.

    Args:
        folders: Folders of `recsys tune`, `recsys rerun`, `recsys compare` and
            `recsys train`, in any mixture.
        out: Folder to write: new or empty. Of a single run, `report` in its
            folder unless given, which is replaced.
        sparse_only: Boolean, whether to leave out the trials of sweeps whose
            gate was to become sparse and has more than k experts per example
            on average (gumbel-softmax: more than 4). The page and a warning
            say how many. Defaults to `True`.
        with_embeddings: Boolean, whether to draw the embedded rows of the best
            runs by UMAP, which takes many seconds. Defaults to `False`.

    Returns:
        The titles of the sections.

    Raises:
        RunError: A folder holds nothing finished, or nothing is left to
            report on, or `out` is not empty, or another process is writing to
            it.
        ValueError: `out` is missing, and there is not a single run.

    References:
        Hazimeh et al., DSelect-k: Differentiable Selection in the Mixture of
        Experts with Applications to Multi-Task Learning, NeurIPS 2021,
        sections 3.1.3 and 3.2, appendices D.1 and D.2 (which trials count).
    """
    announce("Reading the runs")
    if out is not None:
        place = Path(out)
        with sole_writer(place):
            check_vacant(place)
            finished = read_trained(folders)
            return _report(
                folders, finished, place, sparse_only, with_embeddings
            )
    finished = read_trained(folders)
    if not _is_single(folders, finished):
        raise ValueError(
            "`out` must be given unless there is a single run. "
            f"Received: folders={[str(folder) for folder in folders]}"
        )
    place = Path(folders[0], "report")
    with sole_writer(place):
        if not (place / PAGE).is_file():
            check_vacant(place)
        return _report(folders, finished, place, sparse_only, with_embeddings)


def _is_single(
    folders: Sequence[str | Path], finished: Sequence[Trained]
) -> bool:
    """Returns whether the folders are that of one training."""
    return len(folders) == len(finished) == 1 and finished[
        0
    ].run.folder == Path(folders[0])


def _report(
    folders: Sequence[str | Path],
    finished: Sequence[Trained],
    out: Path,
    sparse_only: bool,
    with_embeddings: bool,
) -> list[str]:
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
    made = _made(_parts(folders, trained, simple, with_embeddings))
    announce("Writing the page")
    counted = _counts(finished, count_failed(folders))
    if simple:
        counted += f" Baselines: {len(simple):,}."
    title = "Report"
    if _is_single(folders, finished):
        counted = "One run: what it is, what it beats, and what its experts do."
        title = f"Run {printable(Path(folders[0]).resolve().name)}"
    pages = Pages(title, f"{counted} {notice}".rstrip(), made)
    with replacing(out) as unfinished:
        unfinished.mkdir()
        pages.write(unfinished)
        shutil.rmtree(out, ignore_errors=True)  # An earlier report.
    return [section.title for section in made]


def _parts(
    folders: Sequence[str | Path],
    trained: Sequence[Trained],
    simple: Sequence[Run],
    with_embeddings: bool,
) -> list[_Part]:
    """The parts of the report in their order, by name."""
    single = _is_single(folders, trained)
    parts: list[_Part] = []
    if single:
        parts += [_part(make, trained[0]) for make in OF_A_RUN]
    parts.append(_part(baselines, simple))
    for make in SECTIONS if trained else ():
        if make is results:  # The only one that has baselines in it.
            parts.append(("results", partial(results, trained, simple=simple)))
        elif not (single and make is routing):
            parts.append(_part(make, trained))
    if with_embeddings and trained:
        parts.append(_part(embeddings, trained))
    return parts


def _part(make: Callable[[Any], Section | None], of: object) -> _Part:
    return make.__name__.replace("_", " "), partial(make, of)


def _made(parts: Sequence[_Part]) -> list[Section]:
    sections = []
    for number, (name, make) in enumerate(parts, start=1):
        announce(f"Section {number} of {len(parts)}: {name}")
        if (section := make()) is not None:
            sections.append(section)
    return sections


def _counts(trained: Sequence[Trained], failed: int) -> str:
    trials = sum(run.searched for run in trained)
    runs = len(trained) - trials
    text = (
        f"Finished: {_counted(trials, 'trial')} of sweeps, "
        f"{_counted(runs, 'other run')}."
    )
    return text + (f" Failed: {_counted(failed, 'trial')}." if failed else "")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
