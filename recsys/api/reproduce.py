import datetime
import os
import shutil
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from typing import TypeVar

import pandas as pd

from recsys.baselines.config import BaselineConfig
from recsys.config.train_config import TrainConfig
from recsys.data.prepare import prepare
from recsys.errors import RunError
from recsys.errors.bounds import check_count
from recsys.errors.shown import did_you_mean
from recsys.errors.shown import shown
from recsys.files.atomic import replacing
from recsys.files.folders import check_no_links
from recsys.files.json_files import JsonObject
from recsys.files.json_files import read_json
from recsys.files.json_files import write_json
from recsys.files.output_lock import sole_writer
from recsys.processes.command_process import CommandProcess
from recsys.processes.command_process import command_words
from recsys.processes.command_process import why_it_failed
from recsys.reporting.shelf import BENCHMARKS
from recsys.reporting.shelf.benchmark import Benchmark
from recsys.reporting.shelf.benchmark import Setting
from recsys.runs.run import Run
from recsys.terminal.progress import announce

_KINDS: dict[str, type] = {
    "baseline": BaselineConfig,
    "train": TrainConfig,
}

Choice = TypeVar("Choice")


def reproduce(
    name: str,
    raw_dir: str | Path,
    out: str | Path,
    rows: Iterable[str] | None = None,
    seeds: int | None = None,
    backend: str | None = None,
) -> pd.DataFrame:
    """Measures models on a public benchmark, beside what is published.

    The published files are checked by their checksums and prepared; each row
    of the benchmark is fitted or trained in a process of its own, one after
    the other, with each of its seeds. Called again, it goes on with the rows
    and seeds that are missing.

    Args:
        name: One of `recsys.reporting.shelf.BENCHMARKS`.
        raw_dir: Folder of the published files.
        out: Folder for the data, the runs and `results.csv`.
        rows: Names of the rows to measure; all of them unless given.
        seeds: With how many seeds each row is measured that draws anything,
            or whose splits are drawn; as the benchmark says unless given.
        backend: Keras backend of the trainings; as for `train` unless given.

    Returns:
        A line for each row and seed that has been measured: its metrics on
        the test split, `"cpu_minutes"` of the whole process, imports and
        measuring included, `"cores"` of the machine, the `"date"` and the
        `"device"`, the name of an accelerator or "cpu".

    Raises:
        DataError: A file is missing, or not the one that was published.
        RunError: A row failed, or another process is writing to `out`.
        ValueError: There is no such benchmark or row.
    """
    benchmark = _named("name", name, BENCHMARKS)
    known = {setting.name: setting for setting in benchmark.settings}
    chosen = [_named("rows", row, known) for row in rows or known]
    if seeds is not None:
        check_count("seeds", seeds)
    out = Path(out).resolve()
    with sole_writer(out):
        check_no_links(out)
        for setting in chosen:
            most = max(setting.seeds, benchmark.draws)
            for seed in range(1 if most == 1 else seeds or most):
                draw = seed if benchmark.draws > 1 else None
                data = _prepared(benchmark, setting, Path(raw_dir), out, draw)
                run = _run_folder(out, setting, seed)
                if not _record(run).is_file():
                    announce(f"{name}: {setting.name}, seed {seed}")
                    _measure(benchmark, setting, seed, data, run, backend)
                results = pd.DataFrame(_results(benchmark, out))
                with replacing(out / "results.csv") as unfinished:
                    results.to_csv(unfinished, index=False)
    return results


def _named(argument: str, name: str, known: Mapping[str, Choice]) -> Choice:
    if name not in known:
        raise ValueError(
            f"`{argument}` must be among {list(known)}"
            f"{did_you_mean(name, known)}. Received: {shown(name)}"
        )
    return known[name]


def _prepared(
    benchmark: Benchmark,
    setting: Setting,
    raw_dir: Path,
    out: Path,
    draw: int | None,
) -> Path:
    """The data folder of a row, of one draw, made unless it is there."""
    needed = [
        option
        for option in benchmark.files
        if option not in benchmark.optional or option in setting.files
    ]
    drawn = [] if draw is None else [f"seed-{draw}"]
    folder = out / "-".join(["data", *setting.files, *drawn])
    if not folder.is_dir():
        files: dict[str, Any] = {
            option: benchmark.files[option].checked(raw_dir)
            for option in needed
        }
        names = ", ".join(files.values()) or benchmark.data_set
        announce(f"Preparing {names} in {raw_dir}")
        options = {**files, **benchmark.options}
        prepare(benchmark.data_set, raw_dir, folder, draw or 0, **options)
    return folder


def _run_folder(out: Path, setting: Setting, seed: int) -> Path:
    return out / "runs" / setting.name / f"seed-{seed}"


def _record(run: Path) -> Path:
    """The record of a finished run."""
    return run.with_suffix(".json")


def _measure(
    benchmark: Benchmark,
    setting: Setting,
    seed: int,
    data: Path,
    run: Path,
    backend: str | None,
) -> None:
    """Makes a run in a process of its own, and writes what it took."""
    if run.exists():
        shutil.rmtree(run)  # What was interrupted tells no CPU time.
    run.parent.mkdir(parents=True, exist_ok=True)
    fields = {
        **setting.fields,
        "data": str(data),
        "out": str(run),
        "seed": seed,
        "metrics_k": benchmark.k,
        **({} if backend is None else {"backend": backend}),
    }
    kind = _KINDS[setting.command]
    arguments = command_words(setting.command, kind, fields)
    log = Path(f"{run}.log")
    log.unlink(missing_ok=True)
    process = CommandProcess({}, log)
    try:
        code = process.run(arguments, log)
    finally:
        process.end()
        process.wait()
    if code:
        raise RunError(f"{run}: {why_it_failed(code, log)}; see {log}")
    write_json(
        _record(run),
        {
            "cpu_minutes": round(process.cpu_seconds / 60, 1),
            "cores": os.cpu_count(),
            "date": datetime.date.today().isoformat(),
            "device": read_json(Run(run).config)["versions"].get(
                "accelerator", "cpu"
            ),
        },
    )


def _results(benchmark: Benchmark, out: Path) -> Iterator[JsonObject]:
    """Results so far, in the order of the benchmark's rows."""
    for setting in benchmark.settings:
        records = (out / "runs" / setting.name).glob("seed-*.json")
        seeds = sorted(
            int(record.stem.removeprefix("seed-")) for record in records
        )
        for seed in seeds:
            run = _run_folder(out, setting, seed)
            test = read_json(Run(run).metrics)["test"]
            yield {
                "row": setting.name,
                "seed": seed,
                **benchmark.values(test),
                "device": "cpu",  # Older records do not tell.
                **read_json(_record(run)),
            }
