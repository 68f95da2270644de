import doctest
import pkgutil
from importlib import import_module

import pytest

import recsys

MODULES = [
    module.name
    for module in pkgutil.iter_modules(recsys.__path__)
    if not module.ispkg and module.name != "__main__"
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_docstrings_run(name: str) -> None:
    result = doctest.testmod(import_module(f"recsys.{name}"))
    assert not result.failed
