import doctest
import pkgutil
from importlib import import_module

import pytest

import recsys.data

MODULES = [module.name for module in pkgutil.iter_modules(recsys.data.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_docstrings_run(name: str) -> None:
    result = doctest.testmod(import_module(f"recsys.data.{name}"))
    assert not result.failed
