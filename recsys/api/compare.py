from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import as_completed
from pathlib import Path

import pandas as pd

from recsys.data.load import load_schema
from recsys.errors import RunError
from recsys.errors.bounds import check_count
from recsys.files.atomic import remove_all_unfinished
from recsys.files.atomic import replacing
from recsys.files.json_files import JsonMapping
from recsys.files.links import check_no_links
from recsys.files.output_lock import sole_writer
from recsys.processes.training_processes import TrainingProcesses
from recsys.reporting.comparison import Comparison
from recsys.reporting.comparison import PlannedRun
from recsys.reporting.comparison_table import comparison_table
from recsys.terminal.progress import announce


def compare(
    comparison: Comparison | str | Path,
    out: str | Path,
    jobs: int = 1,
    **fields: object,
) -> pd.DataFrame:
    """Trains and tests several models alike; writes a table of the results.

    Every run is trained in a process beside this one with an equal share of
    the cores, and has a folder `OUT/<setting>/<model>/seed-<seed>`. Called
    again after an interruption, it goes on where it was. `OUT/results.csv` has
    a row per run, `OUT/table.md` the means; both are brought up to date after
    each run.

    Args:
        comparison: A `Comparison`, or a JSON file with its fields; see
            `docs/comparing.md`.
        out: Folder of the runs and the table.
        jobs: Runs at a time.
        **fields: Fields of `TrainConfig`, such as `data`, that hold for all
            runs, whatever the comparison says.

    Returns:
        A row per run.

    Raises:
        DataError: The data are missing or wrong.
        FileError: The file of the comparison is broken, or a field in it
            wrong.
        RunError: Some runs failed; the others were finished. Or another
            process is writing to `out`.
        ValueError, TypeError: The comparison is wrong. Nothing is trained
            then: all runs are checked before the first one.
    """
    check_count("jobs", jobs)
    out = Path(out).resolve()
    if isinstance(comparison, Comparison):
        planned = _planned(comparison, out, fields)
    else:
        file, comparison = comparison, Comparison.read(comparison)
        try:
            planned = _planned(comparison, out, fields)
        except (ValueError, TypeError) as error:
            raise type(error)(f"{file}: {error}") from error
    with sole_writer(out):
        check_no_links(out)
        remove_all_unfinished(out)
        return _compare(comparison, planned, out, jobs)


def _planned(
    comparison: Comparison, out: Path, fields: JsonMapping
) -> list[PlannedRun]:
    """The runs of a comparison, each of which can be trained."""
    planned = comparison.runs(out, **fields)
    sources = {run.config.data for run in planned}
    schemas = {source: load_schema(source) for source in sources}
    for run in planned:
        run.check(schemas[run.config.data])
    return planned


def _compare(
    comparison: Comparison, planned: list[PlannedRun], out: Path, jobs: int
) -> pd.DataFrame:
    failures = []
    announce(f"Training {len(planned)} runs, {jobs} at a time")
    with (
        TrainingProcesses(jobs) as processes,
        ThreadPoolExecutor(jobs) as pool,
    ):
        futures = [pool.submit(processes.train, run.config) for run in planned]
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                error = future.exception()
                if error is not None and not isinstance(error, RunError):
                    raise error
                failures += [str(error)] if error else []
                results = _write_results(planned, comparison, out)
                announce(f"{done} of {len(planned)} runs ended")
        except BaseException:
            processes.stop()
            pool.shutdown(cancel_futures=True)
            raise
    if failures:
        raise RunError("; ".join(failures))
    return results


def _write_results(
    planned: list[PlannedRun], comparison: Comparison, out: Path
) -> pd.DataFrame:
    results = pd.DataFrame([r for run in planned if (r := run.result())])
    if not results.empty:
        with replacing(out / "results.csv") as unfinished:
            results.to_csv(unfinished, index=False)
        text = comparison_table(results, comparison.against)
        with replacing(out / "table.md") as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    return results
