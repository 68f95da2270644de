"""Kills commands at random moments, repeats them, and compares what comes out.

    python -m tests.fuzz.kills --cases 60 --seed 0

A command is killed by a signal at a random time, killed at a random change of
the file system, or left with a disk that is full after some bytes per file.
Then it is run again. What it had written is whole or not there; what it writes
in the end is, bit for bit, what an uninterrupted one writes; nothing
unfinished and no process is left behind.
"""

import argparse
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

# Of programs this small, other threads only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Forks processes that have imported everything, and computed nothing.
_PROCESSES = multiprocessing.get_context("forkserver")
MARK = "RECSYS_KILLED_CASE"
SECONDS = 600.0  # That a command may take, and its processes to end.
ROWS = {"train": 160, "validation": 60, "test": 60}
FIELDS = {
    "gate": "comet+",
    "num_experts": 4,
    "embedding_dim": 4,
    "expert_units": [8],
    "head_units": [4],
    "batch_size": 32,
    "epochs": 3,
    "search_epochs": 1,
}
CHANGES = ("open", "os.mkdir", "os.remove", "os.rename", "os.rmdir")
Outcome = dict[str, Any]


@dataclass(frozen=True)
class Fate:
    """What happens to a command; by default, nothing.

    Attributes:
        number: The signal that it gets, 0 for none.
        after: Seconds until then.
        change: At which change of the file system it is killed, 0 for none.
        size: After how many bytes of any file the disk is full.
    """

    number: int = 0
    after: float = 0.0
    change: int = 0
    size: int | None = None


@dataclass(frozen=True)
class Command:
    """A command that is killed.

    Attributes:
        words: The command line that writes to a folder.
        again: What is run after the first time; `None` if nothing is left.
        outcome: What there is to compare of a folder.
    """

    words: Callable[[Path], list[str]]
    again: Callable[["Command", Path], list[str] | None]
    outcome: Callable[[Path], Outcome]


def build(folder: Path) -> None:
    """Writes what the commands read: a log, a data folder and a run."""
    rng = np.random.default_rng(0)
    (folder / "raw").mkdir(parents=True)
    rows = sum(ROWS.values())
    user, item = rng.integers(0, 20, (2, rows))
    log = pd.DataFrame({"user": user, "item": item, "click": item % 2})
    log.to_csv(folder / "raw" / "log.csv", index=False)
    (folder / "fields.json").write_text(json.dumps(FIELDS))
    space = {"learning_rate": [0.001, 0.003, 0.01]}
    (folder / "space.json").write_text(json.dumps(space))
    for name, out in (("prepare", "data"), ("train", "run")):
        status = run(COMMANDS[name].words(folder / out), folder / "log")
        assert status == 0, (folder / "log").read_text()


def _prepare(out: Path) -> list[str]:
    raw = str(out.parent / "raw")
    words = ["prepare", "table", "--raw-dir", raw, "--out", str(out)]
    for option in ("train=log.csv", "ids=user,item", "binary=click"):
        words += ["--option", option]
    return words


def _train(out: Path) -> list[str]:
    fields = str(out.parent / "fields.json")
    data = str(out.parent / "data")
    words = ["train", "--config", fields, "--data", data]
    return [*words, "--out", str(out)]


def _tune(out: Path) -> list[str]:
    words = ["tune", "--data", str(out.parent / "data"), "--out", str(out)]
    for name, value in {**FIELDS, "gate": "top-k", "epochs": 2}.items():
        for item in value if isinstance(value, list) else [value]:
            words += [f"--{name.replace('_', '-')}", str(item)]
    space = str(out.parent / "space.json")
    return [*words, "--trials", "2", "--space", space]


def _export(out: Path) -> list[str]:
    return ["export", "--run", str(out.parent / "run"), "--out", str(out)]


def _if_absent(command: Command, out: Path) -> list[str] | None:
    return None if out.exists() else command.words(out)


def _if_no_version(command: Command, out: Path) -> list[str] | None:
    return None if (out / "1").exists() else command.words(out)


def _resumed(command: Command, out: Path) -> list[str] | None:
    begun = any((out / name).is_file() for name in ("config.json", SWEEP))
    return [*command.words(out), "--resume"] if begun else command.words(out)


def _resumed_run(command: Command, out: Path) -> list[str] | None:
    metrics = out / "metrics.json"
    if metrics.is_file() and "test" in json.loads(metrics.read_text()):
        return None
    return _resumed(command, out)


SWEEP = "sweep.json"


def _files(out: Path) -> Outcome:
    return {
        str(file.relative_to(out)): file.read_bytes()
        for file in sorted(out.rglob("*"))
        if file.is_file()
    }


def _of_export(out: Path) -> Outcome:
    """All names, and the weights; the graph's nodes are numbered anew."""
    import tensorflow as tf

    variables = str(out / "1" / "variables" / "variables")
    reader = tf.train.load_checkpoint(variables)
    weights = {
        name: reader.get_tensor(name).tolist()
        for name, dtype in reader.get_variable_to_dtype_map().items()
        if dtype.is_floating  # Not the states of random generators.
    }
    return {"names": sorted(_files(out)), **weights}


def _of_run(out: Path) -> Outcome:
    names = [
        name
        for name in _files(out)
        if not name.startswith(("tensorboard/", "checkpoint/"))
    ]
    with zipfile.ZipFile(out / "model.keras") as model:
        weights = model.read("model.weights.h5")
    history = pd.read_csv(out / "history.csv").drop(columns="seconds")
    config = json.loads((out / "config.json").read_text())
    return {
        "names": names,
        "checkpoint": (out / "checkpoint").exists(),
        "model.keras": weights,
        "history.csv": history.to_json(double_precision=15),
        "config.json": {**config, "out": None},
        **{
            name: (out / name).read_bytes()
            for name in ("metrics.json", "weights.csv", "sample.npz")
        },
    }


def _of_sweep(out: Path) -> Outcome:
    text = (out / "trials.jsonl").read_text()
    records = sorted(
        map(json.loads, text.splitlines()), key=lambda r: r["trial"]
    )
    outcome: Outcome = {}
    for record in records:
        record["config"]["out"] = record["seconds"] = None
        outcome[record["trial"]] = record
        run_folder = out / "trials" / record["trial"]
        for name, content in _of_run(run_folder).items():
            outcome[f"{record['trial']}/{name}"] = content
    return outcome


COMMANDS = {
    "prepare": Command(_prepare, _if_absent, _files),
    "train": Command(_train, _resumed_run, _of_run),
    "tune": Command(_tune, _resumed, _of_sweep),
    "export": Command(_export, _if_no_version, _of_export),
}


def run(words: list[str], log: Path, fate: Fate = Fate()) -> int:
    """Runs a command in a process of its own; returns how that has ended."""
    _PROCESSES.set_forkserver_preload(["tests.fuzz.preload"])
    process = _PROCESSES.Process(
        target=_run_here, args=(words, log, fate, os.environ.get(MARK, ""))
    )
    process.start()
    assert process.pid is not None, "started"
    if fate.number:
        process.join(fate.after)
        with suppress(ProcessLookupError):
            os.kill(process.pid, fate.number)
    process.join(SECONDS)
    if process.exitcode is None:
        process.kill()
        raise AssertionError(f"no end within {SECONDS:g} seconds")
    return int(process.exitcode)


def _run_here(words: list[str], log: Path, fate: Fate, mark: str) -> None:
    from recsys.cli import run as command_line

    os.environ[MARK] = mark
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    if fate.size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (fate.size, fate.size))
    if fate.change:
        sys.addaudithook(_Killer(fate.change))
    sys.exit(command_line(words))


class _Killer:
    """Kills this process at one of its changes of the file system."""

    def __init__(self, change: int) -> None:
        self.left = change

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in CHANGES:
            return
        if event == "open" and not _writes(arguments):
            return
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def _writes(arguments: tuple[Any, ...]) -> bool:
    return bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))


def draw_fate(rng: random.Random, seconds: float) -> Fate:
    """Draws what happens to a command that takes so many seconds."""
    kind = rng.choice(["signal", "signal", "change", "change", "disk"])
    if kind == "signal":
        signals = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT]
        return Fate(int(rng.choice(signals)), rng.uniform(0, seconds))
    if kind == "change":
        return Fate(change=int(10 ** rng.uniform(0, 2.5)))
    return Fate(size=int(10 ** rng.uniform(1, 6)))


def check(
    name: str, fates: list[Fate], folder: Path, expected: Outcome
) -> None:
    """Lets a command meet its fates one after the other, and then end.

    Args:
        name: The command.
        fates: What happens to it.
        folder: What `build` has written.
        expected: The outcome of an uninterrupted command.

    Raises:
        AssertionError: Something is not as it should be.
    """
    command, out = COMMANDS[name], folder / "out"
    words: list[str] | None = command.words(out)
    for fate in [*fates, Fate()]:
        if words is not None:
            status = run(words, folder / "log", fate)
            _wait_for_processes()
        words = command.again(command, out)
        if fate != Fate() and words is None:
            break  # It was done, or came too late.
    if words is not None and command.again is not _resumed:
        raise AssertionError(f"ended with {status}")
    _compare(command.outcome(out), expected)
    left = [*folder.rglob(".unfinished-*"), *folder.rglob("*.lock")]
    assert not left, f"left behind: {left}"


def _compare(outcome: Outcome, expected: Outcome) -> None:
    assert outcome.keys() == expected.keys(), f"{sorted(outcome)}"
    for name, content in expected.items():
        assert outcome[name] == content, f"{name} differs"


def _wait_for_processes() -> None:
    """Waits until no process of this case is left, as at once they are."""
    last = time.monotonic() + 60
    while processes := _marked_processes(os.environ.get(MARK, "")):
        assert time.monotonic() < last, f"processes left: {processes}"
        time.sleep(0.05)


def _marked_processes(mark: str) -> list[str]:
    """The command lines of programs that a case has started. For Linux."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with suppress(OSError):
                variables = (folder / "environ").read_bytes().split(b"\0")
                if mark and f"{MARK}={mark}".encode() in variables:
                    found.append((folder / "cmdline").read_text())
    return found


def run_case(
    seed: str, folder: Path, names: Mapping[str, tuple[float, Outcome]]
) -> str | None:
    """Runs the case of a seed; returns what is wrong, if anything is.

    Args:
        seed: What the case is drawn from.
        folder: What `build` has written.
        names: The commands with the seconds that each takes and its outcome.
    """
    rng = random.Random(seed)
    # The ones that are quick come more often.
    weights = [1 / seconds for seconds, _ in names.values()]
    (name,) = rng.choices(list(names), weights)
    seconds, expected = names[name]
    fates = [draw_fate(rng, seconds) for _ in range(rng.randint(1, 2))]
    os.environ[MARK] = f"{os.getpid()}-{seed}"
    try:
        check(name, fates, folder, expected)
    except (AssertionError, OSError, ValueError) as error:
        log = (folder / "log").read_text(errors="replace")[-2000:]
        return f"{name} with {fates}: {error}\n{log}"
    finally:
        _forget(folder)
    return None


def _forget(folder: Path) -> None:
    (folder / "log").unlink(missing_ok=True)
    for path in folder.glob(".*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(folder / "out", ignore_errors=True)


def measure(folder: Path, names: list[str]) -> dict[str, tuple[float, Outcome]]:
    """Runs commands uninterrupted: what each takes, and what comes out."""
    measured = {}
    for name in names:
        start = time.perf_counter()
        status = run(COMMANDS[name].words(folder / "out"), folder / "log")
        assert status == 0, (folder / "log").read_text()
        seconds = time.perf_counter() - start
        measured[name] = seconds, COMMANDS[name].outcome(folder / "out")
        _forget(folder)
    return measured


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.kills")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commands", nargs="+", default=list(COMMANDS))
    given = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        measured = measure(folder, given.commands)
        for command, (seconds, _) in measured.items():
            print(f"{command}: {seconds:.1f} s uninterrupted", flush=True)
        for number in range(given.cases):
            seed = f"{given.seed}:{number}"
            problem = run_case(seed, folder, measured)
            if problem is not None:
                wrong += 1
                print(f"case {seed}: {problem}", flush=True)
    print(f"{given.cases} cases, {wrong} of them wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
