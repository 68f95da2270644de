"""Draws what `layer_execution.py` measured.

    python benchmarks/execution_figure.py layer_*.jsonl --out layer.png

One panel per backend: milliseconds of a training step over the number of
experts, for the lines with the most rows, one task and balanced routing.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

Line = dict[str, Any]

STYLES = {
    "dense_ms": ("dense", "tab:red", "o-"),
    "sparse_ms": ("sparse", "tab:blue", "o-"),
    "auto_ms": ("auto", "tab:green", "x--"),
    "limit_ms": ("limit", "tab:gray", ":"),
}


def read_lines(files: list[Path]) -> list[Line]:
    texts = [text for file in files for text in file.read_text().splitlines()]
    lines = [json.loads(text) for text in texts]
    rows = max(line["rows"] for line in lines)
    return [
        line
        for line in lines
        if line["rows"] == rows
        and line["tasks"] == line["layers"] == 1
        and line["routing"] == "balanced"
    ]


def title_of(line: Line) -> str:
    compiled = {
        ("tensorflow", False): "TensorFlow, graph",
        ("tensorflow", True): "TensorFlow, XLA",
        ("jax", True): "JAX, jit",
        ("torch", False): "PyTorch, eager",
    }
    return compiled[line["backend"], line["jit"]]


def draw(axes: Any, lines: list[Line]) -> None:
    lines = sorted(lines, key=lambda line: line["experts"])
    for name, (label, color, style) in STYLES.items():
        points = [
            (line["experts"], line["forward_backward"][name])
            for line in lines
            if name in line["forward_backward"]
        ]
        axes.plot(*zip(*points, strict=True), style, color=color, label=label)
    axes.set(
        title=title_of(lines[0]), xlabel="experts", xscale="log", yscale="log"
    )
    ticks = [line["experts"] for line in lines]
    axes.set_xticks(ticks, map(str, ticks))
    axes.minorticks_off()
    axes.grid(alpha=0.3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    lines = read_lines(options.files)
    titles = sorted({title_of(line) for line in lines}, reverse=True)
    figure, panels = plt.subplots(
        1,
        len(titles),
        figsize=(4 * len(titles), 3.6),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for title, axes in zip(titles, panels[0], strict=True):
        draw(axes, [line for line in lines if title_of(line) == title])
    panels[0][0].set_ylabel("forward + backward, ms")
    panels[0][0].legend()
    figure.savefig(options.out, dpi=120)


if __name__ == "__main__":
    main()
