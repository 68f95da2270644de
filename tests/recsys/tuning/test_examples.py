import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    "name",
    [
        "models.gates",
        "stages.training_processes",
        "tuning.dimensions",
        "tuning.parse_space",
        "tuning.published_space",
    ],
)
def test_the_examples_of_the_docstrings_run(name: str) -> None:
    result = doctest.testmod(import_module(f"recsys.{name}"))
    assert result.attempted
    assert not result.failed
