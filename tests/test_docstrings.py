"""Runs the examples in the docstrings of the packages."""

import doctest
import importlib
import pkgutil
from collections.abc import Iterator

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


def find_examples() -> Iterator[doctest.DocTest]:
    finder = doctest.DocTestFinder()
    for package in (keras_moe, recsys, studies):
        prefix = f"{package.__name__}."
        for info in pkgutil.walk_packages(package.__path__, prefix):
            if info.name.endswith("__main__"):
                continue
            module = importlib.import_module(info.name)
            for test in finder.find(module, extraglobs=NAMES):
                if test.examples:
                    yield test


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
