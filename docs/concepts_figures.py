"""Draws the figures of docs/concepts.md: python docs/concepts_figures.py.

Plain SVG on a white card, which suits light and dark pages. The animation stops
at its first example for whoever prefers less motion.
"""

from collections.abc import Callable
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent / "concepts"
COLORS = ("#4269d0", "#d2861a", "#2f8f4e", "#b0438f")
GREY, INK, PALE = "#d9d9d9", "#222222", "#f1f3f7"
Row = tuple[float, ...]
# Weights of four experts, at most two of them, for each example.
EXAMPLES = {
    "Ann, a comedy": (0.7, 0.0, 0.3, 0.0),
    "Ben, a drama": (0.0, 0.6, 0.0, 0.4),
    "Cem, a comedy": (0.0, 0.0, 0.9, 0.1),
}
ROWS = (
    *((0.7, 0.0, 0.3, 0.0), (0.0, 0.6, 0.0, 0.4), (0.0, 0.0, 0.9, 0.1)),
    *((1.0, 0.0, 0.0, 0.0), (0.0, 0.5, 0.5, 0.0), (0.3, 0.0, 0.2, 0.5)),
)
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #222; text-anchor: middle; }
.left { text-anchor: start; }
.small { font-size: 12px; }
.step { animation: step 9s infinite; opacity: 0; }
@keyframes step { 0%, 32% { opacity: 1; } 34%, 100% { opacity: 0; } }
@media (prefers-reduced-motion: reduce) {
  .step { animation: none; }
  .step.first { opacity: 1; }
}
"""


def picture(title: str, width: int, height: int, *parts: str) -> str:
    """A whole SVG; its title is read aloud and shown by the pointer."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
            f'height="{height}" viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="white"/>',
            *parts,
            "</svg>\n",
        ]
    )


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """Words with the middle of their line at `(x, y)`."""
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(words)}</text>'


def box(x: float, y: float, width: float, words: str, fill: str = PALE) -> str:
    """A box of height 40 with its left upper corner at `(x, y)`."""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="40" rx="6" '
        f'fill="{fill}" stroke="{INK}"/>' + text(x + width / 2, y + 25, words)
    )


def arrow(
    x: float,
    y: float,
    to_x: float,
    to_y: float,
    color: str = INK,
    width: float = 1.5,
) -> str:
    """A line with a dot at its end."""
    return (
        f'<line x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}" '
        f'stroke="{color}" stroke-width="{width:g}"/>'
        f'<circle cx="{to_x:g}" cy="{to_y:g}" r="3.5" fill="{color}"/>'
    )


def mixture() -> str:
    """One example after another passes a gate and the experts it selects."""
    steps = []
    for number, (name, weights) in enumerate(EXAMPLES.items()):
        parts = [text(85, 95, name)]
        for expert, weight in enumerate(weights):
            y, color = 20 + 60 * expert, COLORS[expert]
            chosen = weight > 0
            fill = _fill(color, chosen)
            parts.append(box(250, y, 130, f"expert {expert}", fill))
            if chosen:
                width = 1 + 4 * weight
                parts.append(arrow(150, 90, 250, y + 20, color, width))
                parts.append(arrow(380, y + 20, 470, 130, color, width))
            bar = 40 * weight
            parts.append(
                f'<rect x="{42 + 24 * expert}" y="{250 - bar:g}" width="18" '
                f'height="{bar:g}" fill="{color}"/>'
            )
        first = " first" if number == 0 else ""
        steps.append(
            f'<g class="step{first}" style="animation-delay: {3 * number}s">'
            + "".join(parts)
            + "</g>"
        )
    return picture(
        "A gate gives each example weights; only experts with weight run, and "
        "their outputs are summed by weight.",
        *(640, 290),
        *(box(20, 70, 130, ""), arrow(85, 110, 85, 150)),
        *(box(20, 150, 130, "gate"), text(85, 275, "its weights", "small")),
        f'<line x1="38" y1="250" x2="134" y2="250" stroke="{INK}"/>',
        text(315, 275, "grey: not computed", "small"),
        *(box(470, 110, 150, "weighted sum"), *steps),
    )


def _fill(color: str, chosen: bool) -> str:
    return f"{color}55" if chosen else GREY


def tasks() -> str:
    """Two gates share four experts; an expert runs once for both."""
    chosen = {"watch": (0, 2), "rating": (2, 3)}
    parts = [box(20, 110, 120, "example")]
    for expert, color in enumerate(COLORS):
        y = 20 + 60 * expert
        used = any(expert in experts for experts in chosen.values())
        parts.append(box(220, y, 130, f"expert {expert}", _fill(color, used)))
        if used:
            parts.append(arrow(140, 130, 220, y + 20, color))
    for (task, experts), y in zip(chosen.items(), (60, 160), strict=True):
        parts.append(box(460, y, 120, f"sum for {task}"))
        parts.append(arrow(580, y + 20, 620, y + 20))
        parts.append(box(620, y, 110, f"head: {task}"))
        parts += [
            arrow(350, 40 + 60 * expert, 460, y + 20, COLORS[expert], 2.5)
            for expert in experts
        ]
    return picture(
        "MMoE: each task has a gate of its own over shared experts. "
        "Expert 2 is chosen by both tasks and runs once.",
        *(750, 290),
        *parts,
        text(285, 277, "expert 2 runs once for both tasks", "small"),
    )


def execution() -> str:
    """Which pairs of example and expert each execution computes, with k = 2."""
    ways: dict[str, tuple[str, Callable[[Row, float], bool]]] = {
        "dense": ("all experts", lambda row, weight: True),
        "sparse": (
            "the k = 2 largest weights of a row",
            lambda row, weight: weight >= max(sorted(row)[-2], 0.01),
        ),
        "auto": ("what has weight", lambda row, weight: weight > 0),
    }
    parts = []
    for number, (name, (note, computes)) in enumerate(ways.items()):
        left = 30 + 235 * number
        parts.append(text(left + 80, 28, f'execution="{name}"'))
        for r, row in enumerate(ROWS):
            for e, weight in enumerate(row):
                shade = "cc" if weight else "33"
                fill = f"{COLORS[e]}{shade}" if computes(row, weight) else GREY
                parts.append(
                    f'<rect x="{left + 40 * e}" y="{42 + 26 * r}" width="36" '
                    f'height="22" rx="3" fill="{fill}"/>'
                )
        parts.append(text(left + 80, 222, note, "small"))
    return picture(
        "Rows are examples, columns experts; coloured pairs are computed, "
        "pale ones with a weight of zero. The last row has three experts with "
        "weight.",
        *(720, 240),
        *parts,
    )


def flow() -> str:
    """From a log to a service, with the command of each step."""
    places = ("log", "data folder", "run", "export", "service")
    commands = ("prepare", "train", "export", "serve")
    parts = [
        box(20 + 150 * n, 30, 100, place) for n, place in enumerate(places)
    ]
    for n, command in enumerate(commands):
        parts.append(arrow(120 + 150 * n, 50, 168 + 150 * n, 50))
        parts.append(text(145 + 150 * n, 92, command, "small"))
    return picture("From a log to a service", 740, 110, *parts)


FIGURES = {
    "mixture": mixture,
    "tasks": tasks,
    "execution": execution,
    "flow": flow,
}


def main() -> None:
    """Writes all figures."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in FIGURES.items():
        (FOLDER / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
