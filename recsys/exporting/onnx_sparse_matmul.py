"""A sparse matrix times a dense one, as an ONNX function.

Tasks add up the outputs of their experts so. Onnxruntime runs a `ScatterND`
that adds in several threads, which get into each other's way where two entries
are of the same row. Here, a loop goes over the first entry of each row, the
second and so on: as many steps as the row with the most experts has.
"""

from functools import cache
from typing import TYPE_CHECKING

from recsys.exporting.converter_types import Graph
from recsys.exporting.converter_types import Node
from recsys.features.onnx_graph import OPSETS
from recsys.features.onnx_graph import OnnxGraph

if TYPE_CHECKING:
    import onnx

NAME = "SparseMatMul"

# `entries` (P, 2) are the row and the column of each of the `values` (P,), in
# ascending order of rows; `shape` is (N, M) and `dense` (M, H).
_FUNCTION = f"""
<domain: "{OnnxGraph.DOMAIN}", opset_import: ["" : {OPSETS[""]}]>
{NAME} (entries, values, shape, dense) => (product)
{{
  zero = Constant <value_int = 0> ()
  one = Constant <value_int = 1> ()
  nothing = Constant <value_float = 0.0> ()
  axis_0 = Constant <value_ints = [0]> ()
  axis_1 = Constant <value_ints = [1]> ()
  rows = Gather <axis = 1> (entries, zero)
  columns = Gather <axis = 1> (entries, one)
  num_rows = Slice (shape, axis_0, axis_1)
  zeros = Expand (zero, num_rows)
  num_entries = Shape (rows)
  ones = Expand (one, num_entries)
  counts = ScatterElements <axis = 0, reduction = "add"> (zeros, rows, ones)
  firsts = CumSum <exclusive = 1> (counts, zero)
  ends = Add (firsts, counts)
  before_ends = Sub (ends, one)
  lasts = Max (before_ends, zero)
  most = ReduceMax <keepdims = 0> (counts)
  width = Shape <start = 1> (dense)
  product_shape = Concat <axis = 0> (num_rows, width)
  start = Expand (nothing, product_shape)
  yes = Constant <value = bool {{1}}> ()
  sums = Loop (most, yes, start) <
    body = body (int64 step, bool on, float[N, H] sums_before)
      => (bool still_on, float[N, H] sums_behind)
    {{
      still_on = Identity (on)
      steps_place = Add (firsts, step)
      place = Min (steps_place, lasts)
      column = Gather <axis = 0> (columns, place)
      any_value = Gather <axis = 0> (values, place)
      inside = Less (step, counts)
      value = Where (inside, any_value, nothing)
      value_column = Unsqueeze (value, axis_1)
      taken = Gather <axis = 0> (dense, column)
      weighted = Mul (taken, value_column)
      sums_behind = Add (sums_before, weighted)
    }}
  >
  has_entries = Greater (counts, zero)
  has_entries_column = Unsqueeze (has_entries, axis_1)
  product = Where (has_entries_column, sums, nothing)
}}
"""


@cache
def sparse_matmul() -> "onnx.FunctionProto":
    """Returns the function, of the domain `OnnxGraph.DOMAIN`."""
    from onnx import parser

    return parser.parse_function(_FUNCTION)


def convert_matrix(graph: Graph, node: Node, name: str, args: object) -> None:
    """Leaves TensorFlow's sparse matrix to the node that multiplies by it."""


def convert_matmul(graph: Graph, node: Node, name: str, args: object) -> None:
    """Converts TensorFlow's product to a call of the function.

    Args:
        graph: The graph of tf2onnx, which is changed.
        node: The node `SparseMatrixMatMul` in it.
        name: Its name.
        args: Not used.
    """
    matrix = node.inputs[0]
    graph.replace_inputs(node, [*matrix.input, node.input[1]])
    for attribute in list(node.attr):
        del node.attr[attribute]
    node.type = NAME
    node.domain = OnnxGraph.DOMAIN
    graph.remove_node(matrix.name)
