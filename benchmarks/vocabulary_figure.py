"""Draws what `vocabulary.py` measured.

    python benchmarks/vocabulary_figure.py ids_*.jsonl --out vocabulary.png

One panel per backend: the processor's milliseconds of a training step over the
number of ids in the table.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

Line = dict[str, Any]

TITLES = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}
STYLES = {
    "adam": ("Adam, of all rows", "tab:red"),
    "lazy-adam": ("lazy Adam", "tab:blue"),
    "rowwise-adagrad": ("row-wise Adagrad", "tab:green"),
}


def read_lines(files: list[Path]) -> list[Line]:
    texts = [text for file in files for text in file.read_text().splitlines()]
    return [json.loads(text) for text in texts]


def draw(axes: Any, lines: list[Line]) -> None:
    for name, (label, color) in STYLES.items():
        points = sorted(
            (line["ids"], line["cpu_ms"])
            for line in lines
            if line["optimizer"] == name
        )
        if points:
            axes.plot(*zip(*points, strict=True), "o-", c=color, label=label)
    axes.set(xlabel="ids", xscale="log", yscale="log")
    axes.grid(alpha=0.3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    lines = read_lines(options.files)
    measured = {line["backend"] for line in lines}
    backends = [backend for backend in TITLES if backend in measured]
    figure, panels = plt.subplots(
        1,
        len(backends),
        figsize=(4 * len(backends), 3.6),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for backend, axes in zip(backends, panels[0], strict=True):
        draw(axes, [line for line in lines if line["backend"] == backend])
        axes.set_title(TITLES[backend])
    panels[0][0].set_ylabel("training step, ms of the processor")
    panels[0][0].legend()
    figure.savefig(options.out, dpi=120)


if __name__ == "__main__":
    main()
