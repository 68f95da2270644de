"""Times a model as it is served: by itself, and by HTTP.

    KERAS_BACKEND=tensorflow python benchmarks/serving.py

Prints JSON lines. Part `models`: what `inference.py` does, at the batch sizes
of a server. Part `load`: `recsys serve` with the SavedModel of a sparse ranker,
in a process of its own, is asked for a row at a time by this process: requests
per second and the latency at each number of connections; its resident memory
before and after `--requests` further ones; and, at the connections of
`--killed`, what happens where it is killed in the middle and started again on
the same port. `load_average` is that of the machine when the line is printed:
the server shares it with whoever asks.
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
from pathlib import Path
from types import TracebackType

import psutil
from http_load import Load
from inference import report_latencies
from movielens_ranker import make_ranker
from movielens_ranker import make_rows
from report import report

BODIES = 256


class Server:
    """`recsys serve` in a process of its own."""

    def __init__(self, model: Path, port: int = 0) -> None:
        words = ["serve", "--model", str(model), "--name", "ranker"]
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


def write_model(folder: Path, num_experts: int, gate: str) -> None:
    """Exports an untrained ranker, as `recsys export` does."""
    from recsys.exporting import export_format
    from recsys.exporting.served_ranker import ServedRanker

    ranker = make_ranker(gate=gate, num_experts=num_experts, execution="sparse")
    export_format("tf_saved_model").write(ServedRanker(ranker), folder / "1")


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


async def kill_in_the_middle(
    server: Server, load: Load, connections: int, seconds: float
) -> None:
    """Kills the server under load, and starts it again."""
    asking = asyncio.create_task(load.run(connections, 2 * seconds))
    await asyncio.sleep(seconds)
    server.kill()
    start = time.perf_counter()
    await asyncio.to_thread(server.restart)
    await asyncio.to_thread(server.wait_until_ready)
    down = time.perf_counter() - start
    refused = await asking
    after = await load.run(connections, seconds)
    report(
        what="killed and started again",
        connections=connections,
        answered_before_and_meanwhile=len(refused.seconds),
        errors_meanwhile=refused.errors,
        down_seconds=round(down, 1),
        after=after.figures(),
        load_average=os.getloadavg()[0],
    )


def load_test(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder)
        write_model(model, options.experts[0], options.gate)
        with Server(model) as server:
            server.wait_until_ready()
            path = "/v1/models/ranker:predict"
            load = Load(server.port, path, make_bodies(options.rows))
            asyncio.run(load.run(1, requests=20))
            for connections in options.connections:
                answers = asyncio.run(load.run(connections, options.seconds))
                report(
                    what="load",
                    n=options.experts[0],
                    rows=options.rows,
                    connections=connections,
                    **answers.figures(),
                    load_average=os.getloadavg()[0],
                )
            before = server.resident_mib()
            most = max(options.connections)
            answers = asyncio.run(load.run(most, requests=options.requests))
            report(
                what="memory",
                connections=most,
                before_mib=before,
                after_mib=server.resident_mib(),
                **answers.figures(),
                load_average=os.getloadavg()[0],
            )
            asyncio.run(
                kill_in_the_middle(
                    server, load, options.killed, options.seconds
                )
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ["models", "load"]
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
    parser.add_argument("--requests", default=100_000, type=int)
    parser.add_argument("--rows", default=1, type=int, help="of a request")
    parser.add_argument("--killed", default=8, type=int)
    options = parser.parse_args()
    if "models" in options.parts:
        for num_experts in options.experts:
            report_latencies(
                num_experts, options.gate, options.batch, options.seconds
            )
    if "load" in options.parts:
        load_test(options)


if __name__ == "__main__":
    main()
