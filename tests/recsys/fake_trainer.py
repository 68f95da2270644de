"""Stands in for the interpreter that trainings are started with.

It takes the place of `sys.executable` and does in milliseconds what callers
see of `recsys train`: the run folder, the last line, the status.
"""

import sys
import textwrap
from pathlib import Path

# Of a process that waits to be told to stop.
ENDLESS = "sys.stdin.read()"


def install(folder: Path, extra: str = "") -> Path:
    """Writes the program; returns its path.

    It notes each call in `calls.txt`: the run folder's name, and "resumed" if
    it was told to resume.

    Args:
        folder: Where to write it.
        extra: Python lines to run in it before it writes its metrics; `fields`
            is the configuration, `here` the folder of the program.
    """
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "trainer"
    program.write_text(
        f"#!{sys.executable}\n"
        + textwrap.dedent(
            """
            import json, os, signal, sys
            from pathlib import Path

            here = Path(__file__).parent
            assert sys.argv[1:5] == [
                "-m", "recsys.child_process", "train", "--config"
            ]
            fields = json.loads(Path(sys.argv[5]).read_text())
            out = Path(fields["out"])
            resumed = sys.argv[6:] == ["--resume"]
            with open(here / "calls.txt", "a") as calls:
                print(out.name, *["resumed"] * resumed, file=calls)
            out.mkdir(parents=True, exist_ok=True)
            (out / "config.json").write_text(json.dumps(fields))
            """
        )
        + textwrap.dedent(extra)
        + textwrap.dedent(
            """
            rate = fields["learning_rate"]
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
            """
        )
    )
    program.chmod(0o755)
    return program


def calls(folder: Path) -> list[str]:
    """What the program has noted."""
    file = folder / "calls.txt"
    return file.read_text().splitlines() if file.is_file() else []


def recsys_command(program: Path) -> list[str]:
    """A command line of `recsys` in which the program trains."""
    code = (
        f"import sys; sys.executable = {str(program)!r};"
        "from recsys.cli import run; sys.exit(run(sys.argv[1:]))"
    )
    return [sys.executable, "-c", code]
