"""Runs the examples in the docstrings of the packages."""

import doctest
import importlib
import pkgutil
from collections.abc import Iterator
from importlib.machinery import FileFinder
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_moe
import recsys
import studies

NAMES = {
    "keras": keras,
    "keras_moe": keras_moe,
    "np": np,
    **vars(keras_moe.layers),
}


def find_modules() -> Iterator[tuple[str, Path]]:
    """The names of the modules of the packages, and their files."""
    for package in (keras_moe, recsys, studies):
        prefix = f"{package.__name__}."
        for info in pkgutil.walk_packages(package.__path__, prefix):
            assert isinstance(info.module_finder, FileFinder)
            spec = info.module_finder.find_spec(info.name)
            assert spec is not None
            assert spec.origin is not None
            if not info.name.endswith("__main__"):
                yield info.name, Path(spec.origin)


def find_examples() -> Iterator[doctest.DocTest]:
    finder = doctest.DocTestFinder()
    for name, file in find_modules():
        # Some of the others import packages that take a second.
        if ">>>" not in file.read_text(encoding="utf-8"):
            continue
        module = importlib.import_module(name)
        for test in finder.find(module, extraglobs=NAMES):
            if test.examples:
                yield test


@pytest.mark.once("torch")
def test_every_module_can_be_imported() -> None:
    names = [name for name, _ in find_modules()]
    assert {"keras_moe.layers", "recsys.data", "studies.tokens"} < {*names}
    for name in names:
        importlib.import_module(name)


@pytest.mark.traced_once("tensorflow")
@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "example", [pytest.param(test, id=test.name) for test in find_examples()]
)
def test_example(example: doctest.DocTest) -> None:
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(
        example, out=report.append
    )
    assert not report, "".join(report)
