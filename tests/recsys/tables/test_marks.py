"""The marks of tables, and that nothing else hangs on variables."""

import ast
from pathlib import Path

import keras
import numpy as np
import pytest

import recsys
from recsys.tables import LazyAdam
from recsys.tables import TableEmbedding
from recsys.tables import TableOptimizer
from recsys.tables.marks import Marks
from recsys.tables.marks import by_rows
from recsys.tables.marks import mark
from recsys.tables.marks import marks

pytestmark = pytest.mark.once("torch")

PACKAGE = Path(str(recsys.__file__)).parent


def test_a_variable_is_no_table_unless_it_is_marked() -> None:
    variable = keras.Variable(np.zeros((4, 2)))
    assert vars(marks(variable)) == vars(Marks())
    mark(variable, is_table=True)
    mark(variable, trained_by_rows=True)
    assert marks(variable).is_table
    assert by_rows([variable, keras.Variable(0.0)]) == [True, False]
    assert vars(marks(keras.Variable(0.0))) == vars(Marks())


def test_a_mark_that_does_not_exist() -> None:
    variable = keras.Variable(0.0)
    with pytest.raises(TypeError, match="is_tabel"):
        mark(variable, is_tabel=True)
    with pytest.raises(AttributeError, match="is_tabel"):
        _ = marks(variable).is_tabel  # type: ignore[attr-defined]


def test_layers_and_optimizers_mark_their_variables() -> None:
    small, large = TableEmbedding(3, 2), TableEmbedding(5, 2)
    dense = keras.layers.Dense(1)
    for layer in (small, large):
        layer.build()
    dense.build((None, 2))
    variables = [
        variable
        for layer in (small, large, dense)
        for variable in layer.trainable_variables
    ]
    adam = keras.optimizers.Adam()
    TableOptimizer(adam, LazyAdam(), minimum_rows=4).build(variables)
    is_table = [marks(variable).is_table for variable in variables]
    assert is_table == [True, True, False, False]
    assert by_rows(variables) == [False, True, False, False]


def test_no_file_reads_a_mark_by_its_name() -> None:
    """By `getattr`, a misspelt one would be false."""
    names = {*vars(Marks()), "row_split"}
    found = [
        f"{file.name}:{node.lineno}"
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("getattr", "setattr", "hasattr")
        and isinstance(node.args[1], ast.Constant)
        and node.args[1].value in names
    ]
    assert found == []
