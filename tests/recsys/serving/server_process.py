import os
import queue
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx

# Stands for a machine where nobody has installed Keras.
_WITHOUT_KERAS = """
import runpy, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("keras", "tf_keras", "keras_moe"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
runpy.run_module("recsys", run_name="__main__")
"""


class ServerProcess:
    """`recsys serve` in a process that cannot import Keras.

    Args:
        folder: Folder of the versions.
        *options: Further words of the command.
        **environment: What is added to the environment.
    """

    def __init__(self, folder: Path, *options: str, **environment: str) -> None:
        words = ["serve", "--model", str(folder), "--poll-seconds", "0.1"]
        if "--port" not in options:
            words += ["--port", "0"]
        root = Path(__file__).parents[3]
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", _WITHOUT_KERAS, *words, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(root), **environment},
        )
        self.log: list[str] = []
        self._printed: queue.Queue[str] = queue.Queue()
        self._readers = [
            threading.Thread(target=read, daemon=True)
            for read in (self._read_out, self._read_log)
        ]
        for reader in self._readers:
            reader.start()

    def _read_out(self) -> None:
        for line in self.process.stdout or ():
            self._printed.put(line)

    def _read_log(self) -> None:
        for line in self.process.stderr or ():
            self.log.append(line)

    def __enter__(self) -> "ServerProcess":
        line = self._printed.get(timeout=120)
        self.url = line.removeprefix("Listening on ").strip()
        self.base = self.url.partition("/v1/")[0]
        self.port = int(self.base.rpartition(":")[2])
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.kill()
        self.wait()

    def wait(self) -> int:
        """Returns the status that it ends with; its log is whole then."""
        status = self.process.wait(60)
        for reader in self._readers:
            reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        return status

    def wait_until_ready(self) -> "ServerProcess":
        last = time.monotonic() + 120
        while httpx.get(f"{self.base}/readyz").status_code != 200:
            assert time.monotonic() < last, self.log
            time.sleep(0.05)
        return self


def until_end(connection: socket.socket) -> bytes:
    """All that comes before the server ends a connection."""
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return received
