"""Asks a server the same thing again and again, over a few connections."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import numpy as np


@dataclass
class Answers:
    """What came back.

    Attributes:
        seconds: Of each request that was answered by 200.
        errors: By kind, how many requests were not.
        took: Seconds from the first request to the last answer.
    """

    seconds: list[float] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)
    took: float = 0.0

    def add_error(self, kind: str) -> None:
        self.errors[kind] = self.errors.get(kind, 0) + 1


def figures(*runs: Answers) -> dict[str, Any]:
    """What came back in all runs; medians over them of what has a time."""
    of_each = [
        {
            "requests_a_second": len(answers.seconds) / answers.took,
            **{
                f"p{percent}_ms": 1e3 * np.percentile(answers.seconds, percent)
                for percent in (50, 95, 99)
            },
        }
        for answers in runs
    ]
    errors: Counter[str] = Counter()
    for answers in runs:
        errors.update(answers.errors)
    return {
        "requests": sum(len(answers.seconds) for answers in runs),
        "errors": dict(errors),
        **{
            name: round(float(np.median([each[name] for each in of_each])), 2)
            for name in of_each[0]
        },
    }


async def read_answer(reader: asyncio.StreamReader) -> tuple[str, bool]:
    """The status of an answer, and whether it ends the connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
    await reader.readexactly(int(length))
    return head[9:12].decode(), b"connection: close" in head


class Load:
    """POST requests to one address, each connection asking when answered.

    Args:
        port: Port on this machine.
        path: Path of the address.
        bodies: What is sent, in turn.
    """

    def __init__(self, port: int, path: str, bodies: list[bytes]) -> None:
        self._port = port
        self._requests = [
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
            for body in bodies
        ]

    async def run(
        self,
        connections: int,
        seconds: float = float("inf"),
        requests: float = float("inf"),
    ) -> Answers:
        """Asks until the seconds are over, or the requests sent."""
        answers = Answers()
        self._left = requests
        start = time.perf_counter()
        self._end = start + seconds
        await asyncio.gather(
            *(self._ask(answers, number) for number in range(connections))
        )
        answers.took = time.perf_counter() - start
        return answers

    async def _ask(self, answers: Answers, number: int) -> None:
        """One connection, opened anew where it breaks."""
        writer: asyncio.StreamWriter | None = None
        while self._left > 0 and time.perf_counter() < self._end:
            self._left -= 1
            number += 1
            request = self._requests[number % len(self._requests)]
            start = time.perf_counter()
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection(
                        "127.0.0.1", self._port
                    )
                writer.write(request)
                status, _ = await read_answer(reader)
            except (OSError, asyncio.IncompleteReadError) as error:
                answers.add_error(type(error).__name__)
                if writer is not None:
                    writer.close()
                    writer = None
                await asyncio.sleep(0.05)
                continue
            if status == "200":
                answers.seconds.append(time.perf_counter() - start)
            else:
                answers.add_error(status)
        if writer is not None:
            writer.close()
