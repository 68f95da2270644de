"""Times a model as it is served: by itself, and by HTTP.

    KERAS_BACKEND=tensorflow python benchmarks/serving.py

Prints JSON lines. Part `models`: what `inference.py` does, at the batch sizes
of a server. Part `load`: `recsys serve` with a sparse ranker in each of
`--formats`, in processes of their own that take turns, is asked for `--rows`
at a time by this process: requests per second and the latency at each number of
connections, medians over `--repetitions`, and the processor time that a
request costs the server and who asks; its resident memory before and after
`--requests` further ones; and, at the connections of `--killed`, what happens
where it is killed in the middle and started again on the same port.
`load_average` is that of the machine when the line is printed: the server
shares it with whoever asks. Part `two-stage`: what `two_stage_call.py`
does, over each number of `--items`. Part `hostile`: `recsys serve` with its
default options is asked by `--hostile-connections` for `--hostile-seconds`,
where a share of `--hostile` of the requests is such as no client should send
(`hostile_requests.py`); meanwhile, a process of its own asks whether the server
is alive: how long that takes, and the server's memory before, at most and
after. Part `shed`: a ranker of `--gate budget` in the first of `--formats`, 16
experts of two layers of `--shed-width` and a budget of 8, without and with
`--shed`: a line with the time of a call in this process by its budget, and one
for each of one, two and three times the traffic that it holds without, which is
70 % of what 4 connections get. Requests of `--shed-rows` are sent at random
moments, whether or not earlier answers have come.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import psutil
from hostile_load import hostile_figures
from hostile_requests import write_model
from http_load import Answers
from http_load import Load
from http_load import figures
from inference import report_latencies
from movielens_ranker import make_ranker
from movielens_ranker import make_rows
from report import report

from recsys.serving.formats import FORMATS
from recsys.serving.runner import load as load_model

BODIES = 256


class Server:
    """`recsys serve` in a process of its own."""

    def __init__(self, model: Path, *options: str, port: int = 0) -> None:
        words = ["serve", "--model", str(model), "--name", "ranker", *options]
        self._command = [sys.executable, "-u", "-m", "recsys", *words]
        self._start(port)

    def _start(self, port: int) -> None:
        self.process = subprocess.Popen(
            [*self._command, "--port", str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        address = self.process.stdout.readline().split()[-1]
        self.port = int(address.split("/")[2].rpartition(":")[2])

    def wait_until_ready(self) -> None:
        while True:
            try:
                address = f"http://127.0.0.1:{self.port}/readyz"
                with urllib.request.urlopen(address):
                    return
            except OSError:
                time.sleep(0.05)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def restart(self) -> None:
        self._start(self.port)

    def processor_seconds(self) -> float:
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def resident_mib(self) -> float:
        memory = psutil.Process(self.process.pid).memory_info()
        return round(memory.rss / 2**20, 1)

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


def write_models(
    folder: Path, formats: list[str], num_experts: int, gate: str
) -> None:
    """Exports an untrained ranker, as `recsys export` does."""
    from recsys.exporting import export_format
    from recsys.exporting.served_ranker import ServedRanker

    ranker = make_ranker(gate=gate, num_experts=num_experts, execution="sparse")
    for name in formats:
        (folder / name).mkdir()
        export_format(name).write(ServedRanker(ranker), folder / name / "1")


def write_budget_model(folder: Path, form: str, width: int) -> None:
    """Exports a ranker of `--gate budget`, of which only the gate has learned.

    One gate for both tasks: with two, a budget of 8 for each takes nearly all
    of 16 experts, so that the plan is dense, and no budget saves time.
    """
    from recsys.exporting import export_format
    from recsys.exporting.served_ranker import ServedRanker

    ranker = make_ranker(
        gate="budget",
        architecture="moe",
        num_experts=16,
        k=8,
        expert_units=[width, width],
    )
    inputs, _ = make_rows(512)
    for _ in range(10):  # The gate's thresholds.
        ranker(inputs, training=True)
    export_format(form).write(ServedRanker(ranker), folder / "1")


def make_bodies(rows: int) -> list[bytes]:
    inputs, _ = make_rows(BODIES * rows)
    columns = {name: values.tolist() for name, values in inputs.items()}
    instances = [
        dict(zip(columns, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]
    return [
        json.dumps({"instances": instances[start : start + rows]}).encode()
        for start in range(0, len(instances), rows)
    ]


class Asked:
    """A server, who asks it, and what came of it.

    Args:
        form: Format of the model.
        server: Who is asked.
        bodies: What for, in turn.
    """

    def __init__(self, form: str, server: Server, bodies: list[bytes]) -> None:
        self.server = server
        self._form = form
        self._load = Load(server.port, "/v1/models/ranker:predict", bodies)
        # Seconds of a processor for a request, the server's and who asks'.
        self._costs: dict[int, list[tuple[float, float]]] = {}
        self._answers: dict[int, list[Answers]] = {}

    def warm_up(self) -> None:
        self.server.wait_until_ready()
        asyncio.run(self._load.run(1, requests=20))

    def run(self, connections: int, seconds: float) -> None:
        server, client = self.server.processor_seconds(), time.process_time()
        answers = asyncio.run(self._load.run(connections, seconds))
        server = self.server.processor_seconds() - server
        client = time.process_time() - client
        count = len(answers.seconds)
        self._answers.setdefault(connections, []).append(answers)
        self._costs.setdefault(connections, []).append(
            (server / count, client / count)
        )

    def report_runs(self, **settings: object) -> None:
        for connections, runs in self._answers.items():
            server, client = np.median(self._costs[connections], axis=0)
            self._report(
                what="load",
                **settings,
                connections=connections,
                **figures(*runs),
                server_us=round(1e6 * server),
                client_us=round(1e6 * client),
            )

    def report_memory(self, connections: int, requests: int) -> None:
        before = self.server.resident_mib()
        answers = asyncio.run(self._load.run(connections, requests=requests))
        self._report(
            what="memory",
            connections=connections,
            before_mib=before,
            after_mib=self.server.resident_mib(),
            **figures(answers),
        )

    async def kill_in_the_middle(
        self, connections: int, seconds: float
    ) -> None:
        """Kills the server under load, and starts it again."""
        asking = asyncio.create_task(self._load.run(connections, 2 * seconds))
        await asyncio.sleep(seconds)
        self.server.kill()
        start = time.perf_counter()
        await asyncio.to_thread(self.server.restart)
        await asyncio.to_thread(self.server.wait_until_ready)
        down = time.perf_counter() - start
        refused = await asking
        after = await self._load.run(connections, seconds)
        self._report(
            what="killed and started again",
            connections=connections,
            answered_before_and_meanwhile=len(refused.seconds),
            errors_meanwhile=refused.errors,
            down_seconds=round(down, 1),
            after=figures(after),
        )

    def _report(self, **fields: object) -> None:
        report(format=self._form, **fields, load_average=os.getloadavg()[0])


def load_test(options: argparse.Namespace) -> None:
    num_experts = options.experts[0]
    with tempfile.TemporaryDirectory() as name, ExitStack() as servers:
        folder = Path(name)
        write_models(folder, options.formats, num_experts, options.gate)
        bodies = make_bodies(options.rows)
        asked = [
            Asked(form, servers.enter_context(Server(folder / form)), bodies)
            for form in options.formats
        ]
        for each in asked:
            each.warm_up()
        for _ in range(options.repetitions):
            for connections in options.connections:
                for each in asked:
                    each.run(connections, options.seconds)
        for each in asked:
            each.report_runs(n=num_experts, rows=options.rows)
            each.report_memory(max(options.connections), options.requests)
            asyncio.run(
                each.kill_in_the_middle(options.killed, options.seconds)
            )


def hostile_test(options: argparse.Namespace) -> None:
    for form in options.formats:
        with tempfile.TemporaryDirectory() as folder:
            write_model(Path(folder) / "1", form)
            with Server(Path(folder)) as server:
                server.wait_until_ready()
                found = asyncio.run(
                    hostile_figures(
                        server.port,
                        server.resident_mib,
                        options.hostile_connections,
                        options.hostile_seconds,
                        options.hostile,
                    )
                )
        load = os.getloadavg()[0]
        report(what="hostile", format=form, **found, load_average=load)


def shed_test(options: argparse.Namespace) -> None:
    (form,) = options.formats[:1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        width = options.shed_width
        write_budget_model(folder, form, width)
        settings = {"format": form, "rows": options.shed_rows, "width": width}
        bodies = make_bodies(options.shed_rows)
        report(
            what="budget",
            **settings,
            ms=call_ms(folder / "1", options.shed_rows),
        )
        with Server(folder) as plain, Server(folder, "--shed") as shedding:
            servers = {"no shed": plain, "shed": shedding}
            loads = {}
            for what, server in servers.items():
                server.wait_until_ready()
                load = Load(server.port, "/v1/models/ranker:predict", bodies)
                loads[what] = load
                closed = asyncio.run(load.run(4, options.shed_seconds))
                if what == "no shed":
                    held = 0.7 * figures(closed)["requests_a_second"]
            # In turns: what else the machine does changes from time to time.
            for times in (1, 2, 3):
                for what, server in servers.items():
                    report(
                        what=what,
                        **settings,
                        times=times,
                        offered=round(times * held, 1),
                        **offered(
                            server.port, loads[what], times * held, options
                        ),
                        load_average=os.getloadavg()[0],
                    )


def call_ms(folder: Path, rows: int) -> dict[str, float]:
    """Milliseconds of a call by its budget, medians of 20."""
    runner = load_model(folder)
    inputs, _ = make_rows(rows)
    found = {}
    for budget in (1, 2, 4, 8):
        given = {
            "user": inputs["user"].astype("int64"),
            "item": inputs["item"].astype("int64"),
            "budget": np.full(rows, budget, "float32"),
        }
        seconds = []
        for _ in range(20):
            start = time.perf_counter()
            runner.run("serving_default", given)
            seconds.append(time.perf_counter() - start)
        found[str(budget)] = round(1e3 * float(np.median(seconds)), 2)
    return found


def offered(
    port: int, load: Load, rate: float, options: argparse.Namespace
) -> dict[str, Any]:
    answers = asyncio.run(load.offer(rate, options.shed_seconds, 256))
    address = f"http://127.0.0.1:{port}/v1/models/ranker"
    with urllib.request.urlopen(address) as answer:
        status = json.load(answer)
    return {**figures(answers), "shedding": status.get("shedding")}


def time_two_stages(items: Sequence[int]) -> None:
    """In processes under TensorFlow, one for each catalogue."""
    script = Path(__file__).with_name("two_stage_call.py")
    backend = {"KERAS_BACKEND": "tensorflow"}
    for number in items:
        subprocess.run(
            [sys.executable, script, "--items", str(number)],
            env={**os.environ, **backend},
            check=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ["models", "load", "two-stage", "hostile", "shed"]
    parser.add_argument("--parts", default=parts, choices=parts, nargs="+")
    parser.add_argument("--experts", default=[16, 64], type=int, nargs="+")
    parser.add_argument(
        "--batch", default=[1, 64, 512, 4096], type=int, nargs="+"
    )
    parser.add_argument("--gate", default="top-k")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument(
        "--connections", default=[1, 8, 64], type=int, nargs="+"
    )
    parser.add_argument("--repetitions", default=3, type=int)
    parser.add_argument(
        "--formats", default=list(FORMATS), choices=FORMATS, nargs="+"
    )
    parser.add_argument("--requests", default=100_000, type=int)
    parser.add_argument("--rows", default=1, type=int, help="of a request")
    parser.add_argument("--killed", default=8, type=int)
    parser.add_argument("--hostile", default=0.2, type=float, help="a share")
    parser.add_argument("--hostile-connections", default=8, type=int)
    parser.add_argument("--hostile-seconds", default=30.0, type=float)
    parser.add_argument("--shed-rows", default=256, type=int)
    parser.add_argument("--shed-width", default=512, type=int)
    parser.add_argument("--shed-seconds", default=15.0, type=float)
    sizes = [4000, 100_000, 1_000_000]
    parser.add_argument("--items", default=sizes, type=int, nargs="+")
    options = parser.parse_args()
    if "models" in options.parts:
        report_latencies(
            options.experts, options.gate, options.batch, options.seconds
        )
    if "load" in options.parts:
        load_test(options)
    if "two-stage" in options.parts:
        time_two_stages(options.items)
    if "hostile" in options.parts:
        hostile_test(options)
    if "shed" in options.parts:
        shed_test(options)


if __name__ == "__main__":
    main()
