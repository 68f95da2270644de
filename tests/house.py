"""The parts of the two packages, and what imports what; counted for a look.

`python -m tests.house` prints the counts, of each part what it imports, and the
small files with one importer, which may be half of its concept. It takes the
folder of another version of the project.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

Graph = dict[str, set[str]]

PROJECT = Path(__file__).parents[1]

# Files that import the entries of a registry, which has one file for each.
REGISTRIES = (
    *("baselines/__init__", "features/__init__", "metrics/__init__"),
    *("metrics/off_policy/__init__", "models/calibration/calibration"),
    *("reporting/shelf/__init__", "retrieval/rerank/__init__"),
    "api/report",  # The sections of a report.
    "training/callbacks/in_order",
    "cli",  # The commands.
)
# Entries that their registry names in a string.
ENTRY_FOLDERS = ("retrieval/losses",)
_SMALL = 60


def imported_modules(file: Path) -> Iterator[str]:
    """All that a file imports, in functions and for type checks as well."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part_graph(root: Path) -> Graph:
    """For each part of a package, the other parts that it imports.

    A part is a folder or a module right below the package's folder.
    """
    graph: Graph = {}
    for file, others in file_graph(root).items():
        part = file.partition("/")[0]
        names = {other.partition("/")[0] for other in others}
        graph[part] = graph.get(part, set()) | names
    return {part: others - {part} for part, others in graph.items()}


def file_graph(root: Path) -> Graph:
    """For each file of a package, the other files that it imports.

    A file is named by its path in the package, without `.py`.
    """
    files = {
        file.relative_to(root).with_suffix("").as_posix(): file
        for file in root.rglob("*.py")
    }
    graph: Graph = {}
    for name, file in files.items():
        modules = imported_modules(file)
        own = (m.split(".")[1:] for m in modules if _is_in(m, root.name))
        graph[name] = {_file_of(path, set(files)) for path in own} - {name}
    return graph


def _is_in(module: str, package: str) -> bool:
    return module.partition(".")[0] == package


def _file_of(path: list[str], files: set[str]) -> str:
    """The file of a module, or of the package that exports a name."""
    for end in (len(path), len(path) - 1):
        inner = "/".join(path[:end])
        for name in (inner, f"{inner}/__init__".lstrip("/")):
            if name in files:
                return name
    return "__init__"


def small_files(root: Path) -> dict[str, bool]:
    """Files of fewer than 60 lines that exactly one other file imports.

    Each with whether it is the entry of a registry. `__init__.py` is none.
    """
    graph = file_graph(root)
    small = {}
    for name in sorted(graph):
        lines = (root / f"{name}.py").read_text(encoding="utf-8").count("\n")
        importers = [file for file, others in graph.items() if name in others]
        if lines >= _SMALL or len(importers) != 1 or name.endswith("__init__"):
            continue
        folder = name.rpartition("/")[0]
        small[name] = folder in ENTRY_FOLDERS or importers[0] in REGISTRIES
    return small


def counts(root: Path) -> dict[str, int]:
    """How large a package is, and how entangled."""
    texts = [file.read_text(encoding="utf-8") for file in root.rglob("*.py")]
    lines = [text.count("\n") for text in texts]
    graph = part_graph(root)
    small = small_files(root)
    return {
        "parts": len(graph),
        "arrows": sum(map(len, graph.values())),
        "files": len(texts),
        "lines": sum(lines),
        "median file": int(median(lines)),
        "small entries": sum(small.values()),
        "small files": len(small) - sum(small.values()),
        "Any": sum(len(re.findall(r"\bAny\b", text)) for text in texts),
    }


def main(project: Path) -> None:
    for package in ("keras_moe", "recsys"):
        root = project / package
        print(package, counts(root))
        for part, others in sorted(part_graph(root).items()):
            print(f"  {part}: {', '.join(sorted(others))}")
        small = [
            name for name, is_entry in small_files(root).items() if not is_entry
        ]
        print(f"  small files: {', '.join(small)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT)
