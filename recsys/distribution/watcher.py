"""Ends a process when another one dies that trains the same model.

It runs as `python watcher.py INDEX COUNT ERRORS` beside each process, so that
it can act whatever that process is doing, and only imports the standard
library, so that it starts quickly. It reads commands from its standard input:

    join HOST PORT TOKEN    address of the watcher of the first process, and
                            the token to send it
    leave                   the training is over; processes may end

The end of the input means that its process has ended. To its standard output
it writes `joined`, once all have joined, and `end`, when its process is to
end. Watchers send messages to that of the first process, and it to all others:

    alive                   every second; a process silent for long is dead
    leave                   as above
    died INDEX              the process that has died

The standard error of its process comes by the pipe ERRORS, and is shown with a
delay: when another process dies, JAX and the sockets of a training print much,
of which nothing is shown except the one line from here.
"""

import math
import os
import selectors
import signal
import socket
import sys
import time
from contextlib import suppress

# A lost machine sends nothing.
SILENCE_SECONDS = 30.0
# Delay of the standard error.
_HOLD_SECONDS = 1.0
_TICK_SECONDS = 0.2

# Of a process that is ended.
STATUS = 1

_Source = int | socket.socket


class _Lines:
    """The lines that come from a pipe or a socket."""

    def __init__(self, source: _Source) -> None:
        self.source = source
        self.is_open = True
        self.last_read = time.monotonic()
        self._rest = b""

    def read(self) -> list[list[str]]:
        """Returns the words of each line that is there."""
        try:
            if isinstance(self.source, int):
                received = os.read(self.source, 1 << 16)
            else:
                received = self.source.recv(1 << 16)
        except OSError:
            received = b""
        self.is_open = bool(received)
        self.last_read = time.monotonic()
        *lines, self._rest = (self._rest + received).split(b"\n")
        return [line.decode(errors="replace").split() for line in lines]


class _Watcher:
    """Watches one process, and reads the messages of other watchers.

    Args:
        index: Index of its process.
        count: Number of processes.
        errors: The pipe of the standard error of its process.
    """

    def __init__(self, index: int, count: int, errors: int) -> None:
        self.index = index
        self.count = count
        self.starter = os.getppid()
        self.errors: int | None = errors
        self.held: list[tuple[float, bytes]] = []
        self.own = _Lines(sys.stdin.fileno())
        # By index, those whose processes have not left.
        self.peers: dict[int, _Lines] = {}
        self.unidentified: list[_Lines] = []
        self.listener: socket.socket | None = None
        self.token = ""
        self.is_joined = False
        self.joins_until = math.inf
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.own.source, selectors.EVENT_READ)
        self.selector.register(errors, selectors.EVENT_READ)

    def listen(self) -> None:
        """Listens for the other watchers; prints the port."""
        try:
            self.listener = socket.create_server(
                ("", 0), family=socket.AF_INET6, dualstack_ipv6=True
            )
        except (OSError, ValueError):  # A machine without IPv6.
            self.listener = socket.create_server(("", 0))
        self.selector.register(self.listener, selectors.EVENT_READ)
        print(self.listener.getsockname()[1], flush=True)

    def run(self) -> None:
        """Watches until its process has left or ended, or another one died."""
        spoke = 0.0
        while True:
            ready: set[object] = {
                key.fileobj for key, _ in self.selector.select(_TICK_SECONDS)
            }
            self._hold_errors(ready)
            # Its own process first: the others die of its death, too.
            if self.own.source in ready and self._receive_own():
                return
            self._accept(ready)
            for index, lines in list(self.peers.items()):
                if lines.source in ready:
                    self._receive(index, lines)
                if time.monotonic() - lines.last_read > SILENCE_SECONDS:
                    self._end(index)
            if not self.is_joined and time.monotonic() > self.joins_until:
                self._end(self._missing()[0])
            # Before all are there, the first one is silent.
            if self.is_joined and time.monotonic() - spoke > 1.0:
                spoke = time.monotonic()
                self._send("alive")

    def _receive_own(self) -> bool:
        """Returns whether its process has left or ended."""
        for word, *rest in self.own.read():
            if word == "leave":
                self._send("leave")
                self._part()
                return True
            host, port, self.token = rest
            self.joins_until = time.monotonic() + SILENCE_SECONDS
            if self.listener is None:
                self._join(host, int(port))
        if not self.own.is_open:
            self._send(f"died {self.index}")
            if self.index:
                self._receive_reason()
            self._part()
        return not self.own.is_open

    def _receive_reason(self) -> None:
        """Reads whether its process ended because another one had died."""
        first = self.peers.get(0)
        while first is not None and first.is_open:
            assert isinstance(first.source, socket.socket)
            first.source.settimeout(_HOLD_SECONDS)
            for word, *rest in first.read():
                if word == "died" and int(rest[0]) == self.index:
                    return
                if word == "died":
                    self._end(int(rest[0]))

    def _part(self) -> None:
        """Lets the others read all messages.

        If this watcher ended with unread input, the system would discard
        what they have not read.
        """
        until = time.monotonic() + 2 * _HOLD_SECONDS
        for lines in self.peers.values():
            assert isinstance(lines.source, socket.socket)
            with suppress(OSError):
                lines.source.shutdown(socket.SHUT_WR)
        for lines in self.peers.values():
            assert isinstance(lines.source, socket.socket)
            while lines.is_open and time.monotonic() < until:
                lines.source.settimeout(_HOLD_SECONDS)
                lines.read()

    def _join(self, host: str, port: int) -> None:
        address = (host.strip("[]"), port)
        try:
            link = socket.create_connection(address, SILENCE_SECONDS)
        except OSError:
            self._end(0)
        link.sendall(f"{self.token} {self.index}\n".encode())
        self._watch(0, _Lines(link))
        self.selector.register(link, selectors.EVENT_READ)

    def _missing(self) -> list[int]:
        """Indices of the processes that have not joined."""
        if self.index:
            return [0]
        return [
            index for index in range(1, self.count) if index not in self.peers
        ]

    def _report_joined(self) -> None:
        self.is_joined = True
        with suppress(OSError):
            print("joined", flush=True)

    def _watch(self, index: int, lines: _Lines) -> None:
        assert isinstance(lines.source, socket.socket)
        # A process that does not read its messages is dead as well.
        lines.source.settimeout(SILENCE_SECONDS)
        self.peers[index] = lines

    def _accept(self, ready: set[object]) -> None:
        """Accepts connections; those with the token become peers."""
        if self.listener in ready and self.listener is not None:
            link, _ = self.listener.accept()
            self.selector.register(link, selectors.EVENT_READ)
            self.unidentified.append(_Lines(link))
        for lines in list(self.unidentified):
            # Without the token, no message can be checked.
            if lines.source not in ready or not self.token:
                continue
            self.unidentified.remove(lines)
            ready.discard(lines.source)
            words = lines.read()
            named = words and len(words[0]) == 2 and words[0][1].isdecimal()
            if named and words[0][0] == self.token:
                self._watch(int(words[0][1]), lines)
                if not self._missing():
                    self._report_joined()
            else:
                self._forget(lines)

    def _receive(self, index: int, lines: _Lines) -> None:
        for word, *rest in lines.read():
            if word == "died":
                self._end(int(rest[0]))
            if word == "leave":
                self._forget(self.peers.pop(index))
                return
            if not self.is_joined and self.index:
                self._report_joined()
        if not lines.is_open:
            self._end(index)

    def _forget(self, lines: _Lines) -> None:
        assert isinstance(lines.source, socket.socket)
        self.selector.unregister(lines.source)
        lines.source.close()

    def _send(self, text: str) -> None:
        for lines in list(self.peers.values()):
            assert isinstance(lines.source, socket.socket)
            with suppress(OSError):  # Its end is read soon.
                lines.source.sendall(f"{text}\n".encode())

    def _end(self, died: int) -> None:
        """Ends its process, since another one has died."""
        self._send(f"died {died}")
        self.held.clear()
        print(
            f"error: process {died} of {self.count} (counted from 0) has "
            "ended before the training was over, and so the others end. To "
            "go on from the last checkpoint, start all of them again with "
            "--resume.",
            file=sys.stderr,
            flush=True,
        )
        with suppress(OSError):  # It has ended.
            print("end", flush=True)
        time.sleep(_HOLD_SECONDS)
        # It is deep within a library, or has been stopped.
        if os.getppid() == self.starter:
            os.kill(self.starter, signal.SIGKILL)
        os._exit(STATUS)

    def _hold_errors(self, ready: set[object]) -> None:
        now = time.monotonic()
        if self.errors in ready and self.errors is not None:
            text = os.read(self.errors, 1 << 16)
            self.held.append((now, text))
            if not text:
                self.selector.unregister(self.errors)
                self.errors = None
        while self.held and now - self.held[0][0] > _HOLD_SECONDS:
            _show(self.held.pop(0)[1])

    def show_rest(self) -> None:
        """Shows what its process has written until its end."""
        while self.errors is not None:
            text = os.read(self.errors, 1 << 16)
            self.held.append((0.0, text))
            if not text:
                break
        for _, text in self.held:
            _show(text)


def _show(text: bytes) -> None:
    with suppress(OSError):  # It has no reader any more.
        while text:
            text = text[os.write(2, text) :]


def _main() -> None:
    index, count, errors = map(int, sys.argv[1:])
    # Ctrl-C and the end of a job are for its process.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watcher = _Watcher(index, count, errors)
    if index == 0:
        watcher.listen()
    watcher.run()
    watcher.show_rest()


if __name__ == "__main__":
    _main()
