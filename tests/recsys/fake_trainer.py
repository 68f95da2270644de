"""Stands in for the interpreter that trainings are started with.

It takes the place of `sys.executable` and does in milliseconds what callers
see of `recsys train`: the run folder, the last line, the status.
"""

import sys
import textwrap
from pathlib import Path

# Of a process that waits to be told to stop.
ENDLESS = "sys.stdin.read()"


_START = """
import json, os, signal, sys
from pathlib import Path

here = Path(__file__).parent
assert sys.argv[1:] == ["-m", "recsys.command_server"]
replies = os.fdopen(os.dup(1), "w")
with open(here / "processes.txt", "a") as processes:
    print(os.getpid(), file=processes)
"""

_BEFORE = """
request = json.loads(line)
log = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.dup2(log, 1)
os.dup2(log, 2)
command, option, config, *rest = request["arguments"]
assert (command, option) == ("train", "--config")
fields = json.loads(Path(config).read_text())
out = Path(fields["out"])
resumed = rest == ["--resume"]
with open(here / "calls.txt", "a") as calls:
    print(out.name, *["resumed"] * resumed, file=calls)
out.mkdir(parents=True, exist_ok=True)
(out / "config.json").write_text(json.dumps(fields))
status, peak_mib = 0, 1.0
"""

_AFTER = """
rate = fields["learning_rate"] or 1e-3
metrics = {
    "loss": (rate - 0.003) ** 2,
    "tasks": {"watch": {"loss": 1.0, "auc": 0.5}},
    "experts_per_example": float(fields["k"] or 2),
}
(out / "history.csv").write_text(
    "epoch,val_loss,seconds\\n1,0.5,1.0\\n"
)
(out / "metrics.json").write_text(
    json.dumps({"validation": metrics, "test": metrics})
)
sys.stdout.flush()
reply = {"status": status, "peak_mib": peak_mib, "cpu_seconds": 1.0}
print(json.dumps(reply), file=replies, flush=True)
"""


def install(folder: Path, extra: str = "") -> Path:
    """Writes the program; returns its path.

    It notes each call in `calls.txt`: the run folder's name, and "resumed" if
    it was told to resume. In `processes.txt` it notes its process's id.

    Args:
        folder: Where to write it.
        extra: Python lines to run in it before it writes its metrics; `fields`
            is the configuration, `here` the folder of the program, `status`
            and `peak_mib` what it will answer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "trainer"
    training = _BEFORE + textwrap.dedent(extra) + _AFTER
    program.write_text(
        f"#!{sys.executable}\n{_START}for line in sys.stdin:\n"
        + textwrap.indent(training, "    ")
    )
    program.chmod(0o755)
    return program


def calls(folder: Path) -> list[str]:
    """What the program has noted."""
    file = folder / "calls.txt"
    return file.read_text().splitlines() if file.is_file() else []


def processes(folder: Path) -> list[int]:
    """The ids of the processes that have run the program."""
    return list(map(int, (folder / "processes.txt").read_text().split()))


def recsys_command(program: Path) -> list[str]:
    """A command line of `recsys` in which the program trains."""
    code = (
        f"import sys; sys.executable = {str(program)!r};"
        "from recsys.cli import run; sys.exit(run(sys.argv[1:]))"
    )
    return [sys.executable, "-c", code]
