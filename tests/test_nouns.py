"""A variable is a noun that says what it holds: `candidates`, not `found`."""

import ast
from collections.abc import Iterator

import pytest

from tests.house import PROJECT

# Verbs and pronouns: what was found, told, said or asked, and of what?
VAGUE = {"asked", "each", "found", "one", "others", "said", "told"}
ALLOWED = {
    # The number 1, beside `zero`.
    ("recsys/exporting/onnx_conversion.py", "one"),
    ("recsys/features/hash.py", "one"),
    ("recsys/features/onnx_hash.py", "one"),
}


def bound_names(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of each variable, argument, attribute and function."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case (
                ast.Name(lineno=line, id=name, ctx=ast.Store())
                | ast.Attribute(lineno=line, attr=name, ctx=ast.Store())
                | ast.arg(lineno=line, arg=name)
                | ast.FunctionDef(lineno=line, name=name)
                | ast.AsyncFunctionDef(lineno=line, name=name)
                | ast.ClassDef(lineno=line, name=name)
            ):
                yield line, name


@pytest.mark.parametrize("package", ["keras_moe", "recsys"])
def test_a_name_is_a_noun(package: str) -> None:
    places: dict[tuple[str, str], list[int]] = {}
    for file in (PROJECT / package).rglob("*.py"):
        path = file.relative_to(PROJECT).as_posix()
        for line, name in bound_names(file.read_text(encoding="utf-8")):
            if name in VAGUE:
                places.setdefault((path, name), []).append(line)
    vague = [
        f"{path}:{lines[0]}: rename `{name}` to a noun that says what it holds"
        for (path, name), lines in sorted(places.items())
        if (path, name) not in ALLOWED
    ]
    assert vague == []
    allowed = {name for name in ALLOWED if name[0].startswith(f"{package}/")}
    assert allowed - set(places) == set(), "no longer there: allow less"


@pytest.mark.parametrize(
    "source",
    [
        "found = []",
        "found: int = 1",
        "for name, found in names: pass",
        "a = [found for found in a]",
        "with a as found: pass",
        "if (found := 1): pass",
        "lambda found: 1",
        "def f(*, found=1): pass",
        "def found(): pass",
        "self.found = 1",
        "def f():\n    a, *found = b",
    ],
)
def test_every_binding_is_seen(source: str) -> None:
    assert "found" in {name for _, name in bound_names(source)}


def test_what_is_only_read_is_not_seen() -> None:
    assert [*bound_names("print(found, a.found, f(found=1))")] == []
