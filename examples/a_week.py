"""A week in the life of a recommender: eight days, one of them broken.

    python examples/a_week.py --out week

Every day, a shop logs what it has shown and what was clicked and bought
(`shop_log.py`). Every evening, a model learns the day, and is compared with the
served one on requests that neither has seen. A server, which stays up all week,
goes over to models that were accepted. One day, prices are logged in cents:
that day's model is refused, and `week/verdicts/5/promotion.html` says why.

The commands run in this process, so that Keras starts only once; what they
print is in `week/log.txt`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import chdir
from contextlib import contextmanager
from contextlib import redirect_stderr
from contextlib import redirect_stdout
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pandas as pd
from shop_log import SCHEMA
from shop_log import Shop

os.environ.setdefault("KERAS_BACKEND", "tensorflow")  # It writes exports.

from recsys.cli import run

# Later days learn more slowly: they only change what is known already.
MODEL = ("--gate", "top-k", "--embedding-dim", "16", "--learning-rate", "0.003")
LATER = ("--learning-rate", "0.001")
EPOCHS = ("--epochs", "3")

# A later model has to be better than the served one. The first has no rival
# but itself: its predictions must be calibrated, and the evening like the day.
# Five times the latency is what a busy machine does not make of the same.
RULES = "most_latency_ratio: 5\n"
FIRST_RULES = RULES + "improved: none\n"
YES, NO = 0, 3  # Exit statuses of `recsys promote`.

TITLES = ("day", "verdict", "served", "old AUC", "new AUC", "ms", "because of")


def live(shop: Shop, days: int, broken: int) -> list[Any]:
    """Lives through the days, in the current folder, and prints a line each.

    Args:
        shop: What is logged.
        days: How many days there are.
        broken: The day on which prices are in cents until the evening.

    Returns:
        For each day the values of `TITLES`.
    """
    Path("rules.yaml").write_text(RULES)
    Path("first_rules.yaml").write_text(FIRST_RULES)
    print_line(*TITLES)

    # The first day. The model has a factor for each place in which an item is
    # shown, and predicts what happens to items that are seen.
    shop.write_day(Path("days/1"), 1, broken == 1)
    recsys(
        *("train", "--data", "days/1", "--out", "runs/1"),
        *("--position-model", "pal", *MODEL, *EPOCHS),
    )
    recsys("export", "--run", "runs/1", "--out", "serving")
    if not is_accepted(day=1, old=1, rules="first_rules.yaml"):
        raise SystemExit("The first model is refused: see verdicts/1")

    with server() as address:
        served = 1
        table = [show(1, served, address)]
        for day in range(2, days + 1):
            shop.write_day(Path(f"days/{day}"), day, broken == day)
            # Go on from the last model that was accepted: known users and
            # items keep their vectors, new ones get some.
            recsys(
                *("train", "--data", f"days/{day}", "--out", f"runs/{day}"),
                *("--from", f"runs/{served}", *LATER, *EPOCHS),
            )
            recsys("export", "--run", f"runs/{day}", "--out", "serving")
            if is_accepted(day, served, "rules.yaml"):
                served = day
            table.append(show(day, served, address))
    return table


def recsys(*words: str) -> int:
    """Runs a command as `recsys` in a shell does, and returns its status."""
    with (
        Path("log.txt").open("a", encoding="utf-8") as log,
        redirect_stdout(log),
        redirect_stderr(log),
    ):
        print("$ recsys", *words, flush=True)
        status = run([*words])
    if status not in (YES, NO):
        raise SystemExit(f"recsys {words[0]} ended with {status}: see log.txt")
    return status


def is_accepted(day: int, old: int, rules: str) -> bool:
    """Compares the day's model with another one, on the day's evening."""
    status = recsys(
        *("promote", "--old", f"serving/{old}", "--new", f"serving/{day}"),
        *("--data", f"days/{day}", "--rules", rules),
        *("--out", f"verdicts/{day}"),
    )
    return status == YES


@contextmanager
def server() -> Iterator[str]:
    """Serves accepted versions, and yields the address of the model."""
    with Path("server.txt").open("w") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "recsys", "serve", "--promoted-only"),
                *("--model", "serving", "--name", "shop", "--port", "0"),
            ],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            raise SystemExit("The server did not start: see server.txt")
        yield line.removeprefix("Listening on ").strip()
    finally:
        process.terminate()
        process.communicate()


def show(day: int, served: int, address: str) -> list[Any]:
    """Asks the server, and prints the line of a day.

    Args:
        day: The day, whose model has the same number.
        served: The version that should be served after its evening.
        address: Address of the model.
    """
    wait_for_verdict(address, day, "AVAILABLE" if served == day else "END")
    milliseconds = 1000 * median(ask(address, served, day) for _ in range(50))
    if served != day:
        check_refused(address, day)
    verdict = json.loads(Path(f"verdicts/{day}/promotion.json").read_text())
    loss = next(x for x in verdict["checks"] if x["name"] == "loss of click")
    # Those of all rows; the page has the slices, too.
    reasons = [each for each in verdict["reasons"] if " where " not in each]
    values = [
        *(day, verdict["verdict"], served),
        *(f"{loss['old_auc']:.3f}", f"{loss['new_auc']:.3f}"),
        *(f"{milliseconds:.1f}", "; ".join(reasons)),
    ]
    print_line(*values)
    return values


def print_line(*values: Any) -> None:
    line = "{:>3}  {:7}  {:>6}  {:>7}  {:>7}  {:>5}  {}".format(*values)
    print(fill(line, 80, subsequent_indent=" " * 47), flush=True)


def wait_for_verdict(address: str, version: int, state: str) -> None:
    """Waits until the server has seen the verdict on a version."""
    last = time.monotonic() + 60
    while time.monotonic() < last:
        with urlopen(address) as answer:
            versions = json.load(answer)["model_version_status"]
        if any(
            (each["version"], each["state"]) == (str(version), state)
            for each in versions
        ):
            return
        time.sleep(0.1)
    raise SystemExit(f"Version {version} is not {state}: {versions}")


def ask(address: str, version: int, day: int) -> float:
    """Asks a version for ten rows of an evening; returns the seconds."""
    rows = pd.read_parquet(f"days/{day}/test.parquet")[:10]
    columns = rows[[*SCHEMA["features"]]].to_dict("list")
    body = json.dumps({"inputs": columns}).encode()
    start = time.perf_counter()
    with urlopen(f"{address}/versions/{version}:predict", body) as answer:
        outputs = json.load(answer)["outputs"]
    seconds = time.perf_counter() - start
    if not all(0 < chance < 1 for chance in outputs["click"]):
        raise SystemExit(f"Version {version} has answered {outputs}")
    return seconds


def check_refused(address: str, day: int) -> None:
    """Checks that a version does not answer."""
    try:
        ask(address, day, day)
    except HTTPError as error:
        if error.code == 404:
            return
        raise
    raise SystemExit(f"Version {day} was refused, and is served")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="new folder")
    parser.add_argument("--days", type=int, default=8)
    parser.add_argument("--broken", type=int, default=5, help="a day")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.out.exists():
        parser.error(f"--out must be a new folder. Received: {options.out}")
    options.out.mkdir(parents=True)
    with chdir(options.out):
        live(Shop(seed=options.seed), options.days, options.broken)


if __name__ == "__main__":
    main()
