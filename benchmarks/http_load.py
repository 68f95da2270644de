"""Asks a server the same thing again and again, or at random moments."""

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

    async def offer(self, rate: float, seconds: float, most: int) -> Answers:
        """Asks at random moments, whether or not earlier answers have come.

        A request's time counts from its moment: also while it waits for one of
        `most` connections.

        Args:
            rate: Requests per second on average.
            seconds: How long.
            most: Connections.
        """
        answers = Answers()
        rng = np.random.default_rng(0)
        gaps = rng.exponential(1 / rate, int(rate * seconds))
        start = time.perf_counter()
        free: asyncio.Queue[_Connection] = asyncio.Queue()
        for _ in range(most):
            free.put_nowait(_Connection(self._port))
        asking = set()
        for number, moment in enumerate(start + np.cumsum(gaps)):
            await asyncio.sleep(max(0, moment - time.perf_counter()))
            request = self._requests[number % len(self._requests)]
            asking.add(
                asyncio.create_task(_ask_once(answers, free, request, moment))
            )
        await asyncio.gather(*asking)
        answers.took = time.perf_counter() - start
        while not free.empty():
            free.get_nowait().close()
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


class _Connection:
    """A connection that is opened anew where it has ended."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: (
            tuple[asyncio.StreamReader, asyncio.StreamWriter] | None
        ) = None

    async def ask(self, request: bytes) -> str:
        """Returns the status of the answer."""
        was_open = self._streams is not None
        try:
            status, ends = await self._ask(request)
        except asyncio.IncompleteReadError:
            if not was_open:
                raise
            self.close()  # The server ends what is idle for seconds.
            status, ends = await self._ask(request)
        if ends:
            self.close()
        return status

    async def _ask(self, request: bytes) -> tuple[str, bool]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(
                "127.0.0.1", self._port
            )
        reader, writer = self._streams
        writer.write(request)
        return await read_answer(reader)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _ask_once(
    answers: Answers,
    free: "asyncio.Queue[_Connection]",
    request: bytes,
    moment: float,
) -> None:
    connection = await free.get()
    try:
        status = await connection.ask(request)
        if status == "200":
            answers.seconds.append(time.perf_counter() - moment)
        else:
            answers.add_error(status)
    except (OSError, asyncio.IncompleteReadError) as error:
        answers.add_error(type(error).__name__)
        connection.close()
    finally:
        free.put_nowait(connection)
