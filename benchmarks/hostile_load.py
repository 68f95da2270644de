"""Asks a server of this machine what no client should, beside what one does."""

import asyncio
import json
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
from hostile_requests import UNENDED
from hostile_requests import WRONG
from hostile_requests import ordinary
from http_load import read_answer

_POOL = 64  # Ordinary requests that are made before.
_HELD = 64  # Connections that are begun and not ended, at a time.
_HELD_SECONDS = 20.0
_PAUSE = 0.05


@dataclass
class Mixed:
    """Connections of which each asks when it is answered.

    Attributes:
        seconds: Of each ordinary request that was answered by 200.
        answers: By what was asked and the status, how many there were.

    Args:
        port: Port on this machine.
        hostile: Share of requests that are hostile.
    """

    port: int
    hostile: float
    seconds: list[float] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._ordinary = [ordinary() for _ in range(_POOL)]
        self._wrong = {kind: make() for kind, make in WRONG.items()}
        self._held: set[asyncio.Task[None]] = set()

    async def run(self, connections: int, seconds: float) -> None:
        end = time.perf_counter() + seconds
        await asyncio.gather(*(self._ask(end) for _ in range(connections)))
        for task in self._held:
            task.cancel()
        await asyncio.gather(*self._held, return_exceptions=True)

    async def _ask(self, end: float) -> None:
        writer: asyncio.StreamWriter | None = None
        while time.perf_counter() < end:
            kind, request = "ordinary", random.choice(self._ordinary)
            if random.random() < self.hostile:
                kind = random.choice([*self._wrong, *UNENDED])
                if kind in UNENDED:
                    self._hold(kind)
                    continue
                request = self._wrong[kind]
            start = time.perf_counter()
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection(
                        "127.0.0.1", self.port
                    )
                writer.write(request)
                status, closes = await read_answer(reader)
            except (OSError, asyncio.IncompleteReadError) as error:
                status, closes = type(error).__name__, True
            if kind == "ordinary" and status == "200":
                self.seconds.append(time.perf_counter() - start)
            self.answers[f"{kind}: {status}"] += 1
            if closes and writer is not None:
                writer.close()
                writer = None
        if writer is not None:
            writer.close()

    def _hold(self, kind: str) -> None:
        """Begins what is never ended, beside the connections."""
        self.answers[f"{kind}: begun"] += 1
        if len(self._held) < _HELD:
            task = asyncio.create_task(_begin(self.port, *UNENDED[kind]))
            self._held.add(task)
            task.add_done_callback(self._held.discard)


async def _begin(port: int, first: bytes, again: bytes) -> None:
    try:
        async with asyncio.timeout(_HELD_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(first)
                while not reader.at_eof():
                    writer.write(again)
                    await writer.drain()
                    await asyncio.sleep(_PAUSE)
                    if not again:
                        await reader.read(1024)
            finally:
                writer.close()
    except (OSError, TimeoutError):
        pass


async def hostile_figures(
    port: int,
    resident_mib: Callable[[], float],
    connections: int,
    seconds: float,
    hostile: float,
) -> dict[str, Any]:
    """Asks for a while, and returns what came of it.

    Args:
        port: Port of a server on this machine.
        resident_mib: Tells the memory of the server.
        connections: How many ask at a time.
        seconds: How long.
        hostile: Share of requests that are hostile.
    """
    # What is imported and reserved at the first time is no growth.
    await Mixed(port, hostile).run(connections, seconds / 4)
    mixed, before = Mixed(port, hostile), resident_mib()
    health = subprocess.Popen(
        [sys.executable, Path(__file__), str(port), str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
    )
    memory: list[float] = [before]
    watching = asyncio.create_task(_watch(resident_mib, memory))
    await mixed.run(connections, seconds)
    checks, _ = await asyncio.to_thread(health.communicate)
    watching.cancel()
    return {
        "health": json.loads(checks),
        "before_mib": before,
        "highest_mib": max(memory),
        "after_mib": resident_mib(),
        "ordinary_a_second": round(len(mixed.seconds) / seconds, 1),
        "ordinary": latencies(mixed.seconds),
        "answers": dict(sorted(mixed.answers.items())),
    }


async def _watch(resident_mib: Callable[[], float], seen: list[float]) -> None:
    while True:
        seen.append(resident_mib())
        await asyncio.sleep(0.2)


def latencies(seconds: list[float]) -> dict[str, float]:
    """Milliseconds: the median, the slowest in a hundred, the slowest."""
    milliseconds = 1e3 * np.array(seconds)
    return {
        "p50_ms": round(float(np.percentile(milliseconds, 50)), 1),
        "p99_ms": round(float(np.percentile(milliseconds, 99)), 1),
        "max_ms": round(float(milliseconds.max()), 1),
    }


def check_health(port: int, seconds: float) -> dict[str, Any]:
    """Asks whether a server is alive, on a new connection each time."""
    end = time.perf_counter() + seconds
    took, failed = [], Counter[str]()
    while time.perf_counter() < end:
        start = time.perf_counter()
        try:
            with socket.create_connection(("127.0.0.1", port), 10) as asked:
                asked.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                status = asked.recv(4096)[9:12].decode()
        except OSError as error:
            status = type(error).__name__
        if status == "200":
            took.append(time.perf_counter() - start)
        else:
            failed[status] += 1
        time.sleep(_PAUSE)
    return {"checks": len(took), "failed": failed, **latencies(took)}


if __name__ == "__main__":  # In a process of its own: nothing else delays it.
    print(json.dumps(check_health(int(sys.argv[1]), float(sys.argv[2]))))
