"""Run folders as a report reads them, without any training."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def metrics(loss: float, experts: float = 2.0) -> dict[str, Any]:
    return {
        "loss": loss,
        "rows": 10,
        "tasks": {
            "watch": {"loss": loss, "auc": 1 - loss},
            "rating": {"loss": 2 * loss, "mse": 2 * loss},
        },
        "experts_per_example": experts,
        "experts_per_example_by_task": {"watch": experts, "rating": experts},
    }


def config(gate: str, out: Path, **fields: object) -> dict[str, Any]:
    return {
        "data": "synthetic",
        "out": str(out),
        "gate": gate,
        "task_weights": {"watch": 0.9, "rating": 0.1},
        **fields,
    }


def write_sweep(
    folder: Path,
    gate: str,
    losses: list[tuple[float, float]],
    failed: int = 0,
    experts: Sequence[float] = (),
) -> Path:
    """A sweep whose trials have these validation and test losses.

    They have as many experts per example on the validation split as `experts`
    says, 2 unless given.
    """
    lines = [
        {
            "trial": str(number),
            "status": "completed",
            "hyperparameters": {},
            "config": config(gate, folder / "trials" / str(number)),
            "validation": metrics(validation, *experts[number : number + 1]),
            "test": metrics(test),
        }
        for number, (validation, test) in enumerate(losses)
    ]
    lines += [
        {"trial": f"f{i}", "status": "failed", "error": "no luck"}
        for i in range(failed)
    ]
    folder.mkdir(parents=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "trials.jsonl").write_text(text)
    return folder


def write_run(
    folder: Path, gate: str, loss: float, seed: int = 0, **fields: object
) -> Path:
    folder.mkdir(parents=True)
    content = config(gate, folder, seed=seed, **fields)
    (folder / "config.json").write_text(json.dumps(content))
    both = {"validation": metrics(loss), "test": metrics(loss)}
    (folder / "metrics.json").write_text(json.dumps(both))
    return folder
