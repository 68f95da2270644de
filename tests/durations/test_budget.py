"""The sum of `make test`, of reports that are written by hand."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.durations.budget import main

Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes what a backend leaves; tests take so many seconds, or a reason."""
    budgets = {"none": 10, "tensorflow": 10, "jax": 10, "torch": 10}
    monkeypatch.setattr("tests.durations.budget.BUDGETS", budgets)

    def write(
        backend: str, left_out: str = "", **tests: float | str | None
    ) -> None:
        (tmp_path / f"{backend}.xml").write_text(
            "<testsuites><testsuite>"
            + "".join(case(*test) for test in tests.items())
            + "</testsuite></testsuites>"
        )
        lines = "".join(f"tests.test_a::{name}\n" for name in left_out.split())
        (tmp_path / f"{backend}.left_out.txt").write_text(lines)

    return write


def case(name: str, outcome: float | str | None) -> str:
    inner = f'<properties><property name="cpu" value="{outcome}"/></properties>'
    if isinstance(outcome, str):
        inner = f'<skipped type="pytest.skip" message="{outcome}">a</skipped>'
    test = f'classname="tests.test_a" name="{name}"'
    return f"<testcase {test}>{inner}</testcase>"


def test_a_line_for_each_backend(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("torch", a=6.0, b=3.5, c="of TensorFlow")
    write("jax", left_out="b d", a=1.25)
    assert main([str(tmp_path), "torch", "jax"]) == 0
    assert capsys.readouterr() == (
        "torch           2 tests,     1 skipped,     0 left to others,"
        "     10 CPU s\n"
        "jax             1 tests,     0 skipped,     2 left to others,"
        "      1 CPU s\n",
        "",
    )


def test_more_than_the_budget(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("torch", a=1.0, b=9.5, c=0.5, d=2.0)
    assert main([str(tmp_path), "torch"]) == 1
    assert capsys.readouterr().err == (
        "error: torch: expected at most 10 CPU seconds. Received: 13, most of "
        "them in tests.test_a::b (10), tests.test_a::d (2), tests.test_a::a "
        "(1)\n"
    )
    assert main(["--slower", "1.5", str(tmp_path), "torch"]) == 0


def test_without_a_budget_nothing_is_left_to_others(
    write: Write, tmp_path: Path
) -> None:
    write("torch", a=99.0)
    (tmp_path / "torch.left_out.txt").unlink()
    assert main(["--all", str(tmp_path), "torch"]) == 0


EVERY = ["tensorflow", "jax", "torch"]


@pytest.mark.parametrize(
    ("outcome", "is_told"),
    [
        (1.0, False),
        ("RECSYS_DATA names no folder with the real downloads", False),
        ("could not import 'faiss'", False),
        ("of TensorFlow", True),
        (None, True),
    ],
)
def test_a_test_that_no_backend_has_run(
    outcome: float | str | None,
    is_told: bool,
    write: Write,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write("tensorflow", left_out="b", a=1.0)
    write("jax", left_out="b", a=1.0)
    write("torch", a=1.0, **({} if outcome is None else {"b": outcome}))
    assert main([str(tmp_path), *EVERY]) == is_told
    told = (
        "error: tests.test_a::b: expected to run on one backend. Received: "
        "left out, or skipped, on each\n"
    )
    assert capsys.readouterr().err == told * is_told
    # Of some of the backends nothing is known.
    assert main([str(tmp_path), *EVERY[:2]]) == 0
