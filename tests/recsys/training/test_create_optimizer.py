import re
from pathlib import Path
from pkgutil import resolve_name

import keras
import pytest
from keras import ops

from keras_moe.optimizers import Adam
from recsys.config.optimizers import OPTIMIZERS
from recsys.config.optimizers import TABLE_OPTIMIZERS
from recsys.config.optimizers import TABLE_RULES
from recsys.config.train_config import TrainConfig
from recsys.tables import TableOptimizer
from recsys.training.compile_model import create_optimizer

ROOT = Path(__file__).parents[3]


def after_one_step(name: str, gradient: float) -> float:
    """Where a weight of 1 is after a step of length 0.5."""
    weight = keras.Variable(1.0)
    optimizer = create_optimizer(name, 0.5)
    optimizer.apply([ops.convert_to_tensor(gradient)], [weight])
    return float(weight.numpy())


def test_adagrad_accumulates_from_a_tenth() -> None:
    # 0.5 * 0.3 / sqrt(0.1 + 0.3²)
    assert after_one_step("adagrad", 0.3) == pytest.approx(1 - 0.3441236)


def test_adam_is_as_keras_has_it() -> None:
    # The first step has the length of the learning rate.
    assert after_one_step("adam", 0.3) == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_name_makes_what_it_says(name: str) -> None:
    optimizer = create_optimizer(name, 0.5)
    assert type(optimizer).__name__.lower() == name
    assert float(optimizer.learning_rate.numpy()) == 0.5


@pytest.mark.parametrize("rule", TABLE_RULES)
def test_tables_are_trained_by_the_rule_of_the_name(rule: str) -> None:
    optimizer = create_optimizer("adagrad", 0.5, rule, 0.1, 20)
    assert isinstance(optimizer, TableOptimizer)
    assert isinstance(optimizer.rule, resolve_name(TABLE_RULES[rule]))
    assert optimizer.rate_factor == pytest.approx(0.2)
    assert optimizer.minimum_rows == 20
    assert type(optimizer.inner).__name__.lower() == "adagrad"
    assert create_optimizer("adam", 0.5, rule).rate_factor == 1


@pytest.mark.parametrize("table_optimizer", [None, "adam"])
def test_tables_are_trained_as_all_else(table_optimizer: str | None) -> None:
    optimizer = create_optimizer("adam", 0.5, table_optimizer)
    assert type(optimizer) is Adam


def test_all_that_names_the_rules_names_those_of_the_registry() -> None:
    page = (ROOT / "docs" / "large_tables.md").read_text()
    rows = re.findall(r"^\| `(\w[\w-]*)` \|", page, re.MULTILINE)
    assert {*rows} == {*TABLE_OPTIMIZERS}
    text = " ".join(str(TrainConfig.__doc__).split())
    for name in TABLE_RULES:
        assert f" {name} (" in text
