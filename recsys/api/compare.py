from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import as_completed
from dataclasses import replace
from pathlib import Path

import pandas as pd

from recsys.baselines.config import BaselineConfig
from recsys.config.train_config import TrainConfig
from recsys.data.load import load_schema
from recsys.errors import RunError
from recsys.errors.bounds import check_count
from recsys.errors.shown import did_you_mean
from recsys.files.atomic import remove_all_unfinished
from recsys.files.atomic import replacing
from recsys.files.folders import check_no_links
from recsys.files.json_files import JsonMapping
from recsys.files.output_lock import sole_writer
from recsys.processes.command_process import command_words
from recsys.processes.training_processes import TrainingProcesses
from recsys.reporting.comparison import COMPARISONS
from recsys.reporting.comparison import Comparison
from recsys.reporting.comparison_table import comparison_table
from recsys.reporting.comparison_table import verdicts
from recsys.reporting.markdown import markdown_text
from recsys.reporting.planned import Planned
from recsys.reporting.planned import check_planned
from recsys.runs.run import Run
from recsys.terminal.progress import announce


def compare(
    comparison: Comparison | str | Path,
    out: str | Path,
    jobs: int = 1,
    seeds: int | None = None,
    **fields: object,
) -> pd.DataFrame:
    """Trains and tests several models alike; writes a table of the results.

    Every run is trained in a process beside this one with an equal share of
    the cores, and has a folder `OUT/<setting>/<model>/seed-<seed>`. Called
    again after an interruption, it goes on where it was. `OUT/results.csv` has
    a row per run, `OUT/table.md` the means; both are brought up to date after
    each run.

    Args:
        comparison: A `Comparison`, or a JSON file with its fields, see
            `docs/comparing.md`, or the name of one of
            `recsys.reporting.comparison.COMPARISONS`.
        out: Folder of the runs and the table.
        jobs: Runs at a time.
        seeds: How many seeds, whatever the comparison says. Its own unless
            given.
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
    source, comparison = comparison, read_comparison(comparison, fields)
    if seeds is not None:
        check_count("seeds", seeds)
        comparison = replace(comparison, seeds=list(range(seeds)))
    try:
        planned = _planned(comparison, out, fields)
    except (ValueError, TypeError) as error:
        if isinstance(source, Comparison):
            raise
        raise type(error)(f"{source}: {error}") from error
    with sole_writer(out):
        check_no_links(out)
        remove_all_unfinished(out)
        return _compare(comparison, planned, out, jobs)


def read_comparison(
    source: Comparison | str | Path, fields: JsonMapping
) -> Comparison:
    """Returns the comparison that a file or a name stands for.

    Args:
        source: As in `compare`.
        fields: Fields of `TrainConfig` for all runs. A comparison with a name
            is made for the "data" among them.

    Raises:
        DataError: The data are missing or wrong.
        FileError: The file is broken, or a field in it wrong.
        FileNotFoundError: There is no such file, nor such a name.
        ValueError: There is a name, and no data.
    """
    if isinstance(source, Comparison):
        return source
    make = COMPARISONS.get(str(source))
    if make is None and not Path(source).exists():
        raise FileNotFoundError(
            f"{source}: expected a JSON file, or one of {list(COMPARISONS)}"
            f"{did_you_mean(str(source), COMPARISONS)}. Received: no such file"
        )
    if make is None or Path(source).is_file():
        return Comparison.read(source)
    data = fields.get("data")
    if not isinstance(data, str | Path):
        raise ValueError(
            f"`data` must be given for the comparison {str(source)!r}. "
            f"Received: data={data!r}"
        )
    return make(load_schema(str(data)))


def _planned(
    comparison: Comparison, out: Path, fields: JsonMapping
) -> list[Planned]:
    """The runs of a comparison, each of which can be trained."""
    planned = comparison.runs(out, **fields)
    sources = {run.data for run in planned}
    schemas = {source: load_schema(source) for source in sources}
    for run in planned:
        check_planned(run, schemas[run.data])
    return planned


def _compare(
    comparison: Comparison, planned: list[Planned], out: Path, jobs: int
) -> pd.DataFrame:
    failures = []
    announce(f"Training {len(planned)} runs, {jobs} at a time")
    with (
        TrainingProcesses(jobs) as processes,
        ThreadPoolExecutor(jobs) as pool,
    ):
        futures = [pool.submit(_make, processes, run) for run in planned]
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


def _make(processes: TrainingProcesses, run: Planned) -> None:
    """Trains or fits what a run of the table needs."""
    for config in run.configs:
        if isinstance(config, TrainConfig):
            processes.train(config)
        else:
            fields = config.to_mapping()
            words = command_words("baseline", BaselineConfig, fields)
            processes.complete(Run(config.out), fields, words)


def _write_results(
    planned: list[Planned], comparison: Comparison, out: Path
) -> pd.DataFrame:
    results = pd.DataFrame([r for run in planned if (r := run.result())])
    if not results.empty:
        with replacing(out / "results.csv") as unfinished:
            results.to_csv(unfinished, index=False)
        text = comparison_table(results, comparison.against)
        for line in verdicts(results, comparison.against):
            text += f"\n\n{markdown_text(line)}"
        with replacing(out / "table.md") as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    return results
