from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path

from recsys.atomic import replacing
from recsys.errors import RunError
from recsys.output_lock import sole_writer
from recsys.reporting.best_trials import best_trials
from recsys.reporting.embeddings import embeddings
from recsys.reporting.flops import flops
from recsys.reporting.k_sweep import k_sweep
from recsys.reporting.loss_distributions import loss_distributions
from recsys.reporting.pages import Pages
from recsys.reporting.results import results
from recsys.reporting.routing import routing
from recsys.reporting.section import Section
from recsys.reporting.shared_experts import shared_experts
from recsys.reporting.trained import Trained
from recsys.reporting.trained import count_failed
from recsys.reporting.trained import read_trained
from recsys.reporting.tuning_cost import tuning_cost

# Each draws its part from the run folders, or has nothing to say.
SECTIONS: Sequence[Callable[[Sequence[Trained]], Section | None]] = (
    results,
    best_trials,
    tuning_cost,
    k_sweep,
    routing,
    shared_experts,
    flops,
    loss_distributions,
    embeddings,
)


def report(folders: Sequence[str | Path], out: str | Path) -> list[str]:
    """Reports on sweeps, comparisons and runs, without training again.

    The folder gets `index.html`, a page that holds all it shows and works
    offline, `report.md`, which says the same, and `figures/` with the PNGs.

    Args:
        folders: Folders of `recsys tune`, `recsys rerun`, `recsys compare` and
            `recsys train`, in any mixture.
        out: Folder to write: new or empty.

    Returns:
        The titles of the sections.

    Raises:
        RunError: A folder holds nothing finished, or `out` is not empty, or
            another process is writing to it.
    """
    with sole_writer(out):
        return _report(folders, Path(out))


def _report(folders: Sequence[str | Path], out: Path) -> list[str]:
    if out.exists() and (out.is_file() or any(out.iterdir())):
        raise RunError(
            "`out` must be a new or empty folder. "
            f"Received: out={str(out)!r}, which holds something"
        )
    trained = read_trained(folders)
    parts = [section(trained) for section in SECTIONS]
    sections = [section for section in parts if section is not None]
    pages = Pages("Report", _summary(trained, count_failed(folders)), sections)
    with replacing(out) as unfinished:
        unfinished.mkdir()
        pages.write(unfinished)
    return [section.title for section in sections]


def _summary(trained: Sequence[Trained], failed: int) -> str:
    trials = sum(one.searched for one in trained)
    runs = len(trained) - trials
    text = (
        f"Finished: {_counted(trials, 'trial')} of sweeps, "
        f"{_counted(runs, 'other run')}."
    )
    return text + (f" Failed: {_counted(failed, 'trial')}." if failed else "")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
