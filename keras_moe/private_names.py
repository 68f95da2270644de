"""The only file of this package that touches private names of other libraries.

Private is what a library does not document for users: it may change in any
minor release. Each function says which names it uses, why no public one will
do, and with which releases its tests have passed. `pyproject.toml` ends below
the next ones.
"""

import inspect
from collections.abc import Iterable
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import keras

from keras_moe.types import Tensor

if TYPE_CHECKING:
    import torch
    from jax.extend.core import JaxprEqn


def each_layer(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Returns a layer and all layers in it, at any depth, each once.

    `Layer._flatten_layers` of Keras; `Model.layers` is public, but lists only
    what is directly in a model, and a `Layer` has no such list. Keras 3.12 to
    3.15.
    """
    layers: list[keras.layers.Layer] = layer._flatten_layers()
    return layers


def own_layout(
    variable: keras.Variable,
) -> keras.distribution.TensorLayout | None:
    """Returns the layout that a variable was made with, or `None`.

    `Variable._layout` of Keras; the public
    `Distribution.get_variable_layout`, within which this is called, needs it.
    Keras 3.12 to 3.15.
    """
    return getattr(variable, "_layout", None)


def is_stateless() -> bool:
    """Returns whether variables are frozen here, as in a build by tracing.

    `StatelessScope.original_scope` of Keras; a public
    `keras.backend.in_stateless_scope` does not exist. Keras 3.12 to 3.15.
    """
    with keras.StatelessScope(initialize_variables=False) as scope:
        return scope.original_scope is not None


class NestedScope(keras.StatelessScope):
    """A stateless scope that sees the values of the scope around it.

    `original_scope`, `losses` and `state_mapping` of Keras's `StatelessScope`;
    it documents its arguments and `get_current_value` alone, and a scope within
    another one hides the other's values. Keras 3.12 to 3.15.
    """

    def get_current_value(self, variable: keras.Variable) -> Any:
        value = super().get_current_value(variable)
        if value is None and self.original_scope is not None:
            value = self.original_scope.get_current_value(variable)
        return value

    def give(
        self, variables: Iterable[keras.Variable], values: Iterable[Tensor]
    ) -> None:
        """Sets values of any shape; the constructor compares the shapes."""
        self.state_mapping.update(zip(map(id, variables), values, strict=True))

    def holds_more_than(self, states: Sequence[keras.Variable]) -> bool:
        """Returns whether a loss was added, or another variable assigned."""
        return bool(self.losses) or len(self.state_mapping) > len(states)


def export_format() -> str | None:
    """Returns the format of the `keras.Model.export` that this call is part of.

    The local variable `format` of Keras's `Model.export`, found on the stack;
    nothing else tells a layer that it is exported, or for which format. Keras
    3.12 to 3.15.
    """
    export = inspect.unwrap(keras.Model.export).__code__
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code is export:
            return str(frame.f_locals["format"])
        frame = frame.f_back
    return None


def optimizer_class(optimizer: Any) -> Any:
    """Returns the class of what `optimizer()` makes.

    On PyTorch it is a subclass that changes all weights at once, and only its
    own subclasses do so, too. What `Optimizer.__new__` of Keras does;
    `keras.optimizers` exports only the class above it, and calling that would
    begin to use devices when this is imported. Keras 3.12 to 3.15.

    Args:
        optimizer: A class of `keras.optimizers`.
    """
    return type(optimizer.__new__(optimizer))


def slots(
    optimizer: keras.optimizers.Optimizer, variable: keras.Variable
) -> list[keras.Variable]:
    """Returns what Adam or Adagrad keeps of a weight.

    `_get_variable_index`, `_momentums`, `_velocities`, `_velocity_hats` and
    `_accumulators` of Keras's optimizers; the public `Optimizer.variables` does
    not say which variable belongs to which weight. Keras 3.12 to 3.15.

    Args:
        optimizer: An optimizer that is built.
        variable: One of its weights.

    Returns:
        The two moments of Adam and, for AMSGrad, the largest second moment; or
        the accumulator of Adagrad.
    """
    index = optimizer._get_variable_index(variable)
    names = "_momentums", "_velocities", "_velocity_hats", "_accumulators"
    return [
        getattr(optimizer, name)[index]
        for name in names
        if hasattr(optimizer, name)
    ]


class StepsOfAll:
    """Mixed into an optimizer of Keras, lets it change all weights at once.

    `_parallel_update_step` of Keras's optimizers on PyTorch; the public
    `update_step` is given one weight at a time, and is not called there. Keras
    3.12 to 3.15.
    """

    def _update_all(
        self,
        gradients: Sequence["torch.Tensor"],
        variables: Sequence[keras.Variable],
        learning_rate: "torch.Tensor",
    ) -> None:
        """Changes all weights, called by Keras on PyTorch alone."""
        base: Any = super()
        base._parallel_update_step(gradients, variables, learning_rate)

    def _parallel_update_step(
        self,
        grads: Sequence["torch.Tensor"],
        variables: Sequence[keras.Variable],
        learning_rate: "torch.Tensor",
    ) -> None:
        self._update_all(grads, variables, learning_rate)


def is_graph_for_xla() -> bool:
    """Returns whether TensorFlow's graph of this call is for XLA.

    `control_flow_util.GraphOrParentsInXlaContext` of TensorFlow; the public
    `tf.config` says what is compiled by default, not what is traced here.
    TensorFlow 2.21.
    """
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_util

    graph = tf.compat.v1.get_default_graph()
    return bool(control_flow_util.GraphOrParentsInXlaContext(graph))


def apply_adam(**arguments: object) -> None:
    """Changes a weight and its moments in one pass, on TensorFlow.

    `tf.raw_ops.ResourceApplyAdam`, its arguments; public optimizers that call
    it, as those of `tf.compat.v1.train`, have moments of their own. TensorFlow
    2.21.
    """
    import tensorflow as tf

    tf.raw_ops.ResourceApplyAdam(**arguments)


def apply_adagrad(**arguments: object) -> None:
    """Changes a weight and its accumulator in one pass, on TensorFlow.

    `tf.raw_ops.ResourceApplyAdagradV2`, its arguments; no public optimizer
    calls it. TensorFlow 2.21.
    """
    import tensorflow as tf

    tf.raw_ops.ResourceApplyAdagradV2(**arguments)


def multiply_sparse(
    indices: Tensor, values: Tensor, dense_shape: Tensor, dense: Tensor
) -> Tensor:
    """Multiplies a sparse matrix by a dense one on all cores, on TensorFlow.

    `SparseTensorToCSRSparseMatrix` and `SparseMatrixMatMul` of `tf.raw_ops`;
    the public `tf.sparse.sparse_dense_matmul` has another kernel. TensorFlow
    2.21.

    Args:
        indices: Int64 `(P, 2)`, rows and columns of the entries, sorted.
        values: Float tensor `(P,)`.
        dense_shape: Int64 `(2,)`, `N` and `M`, both above 0.
        dense: Tensor `(M, H)` of the same type.

    Returns:
        Tensor `(N, H)`.
    """
    import tensorflow as tf

    matrix = tf.raw_ops.SparseTensorToCSRSparseMatrix(
        indices=indices, values=values, dense_shape=dense_shape
    )
    return tf.raw_ops.SparseMatrixMatMul(a=matrix, b=dense)


def is_transformed_on_torch() -> bool:
    """Returns whether a function of `torch.func`, such as `vmap`, runs this.

    `torch._C._functorch.peek_interpreter_stack`; `torch.compiler` knows of
    compilation alone, and `torch.func` tells nothing. PyTorch 2.13.
    """
    import torch

    return torch._C._functorch.peek_interpreter_stack() is not None


def is_literal(operand: object) -> bool:
    """Returns whether an operand of a jaxpr is a number, its attribute `val`.

    `jax.extend.core.Literal`; `jax.extend` promises nothing from release to
    release, and no other module exports the class. JAX 0.10.
    """
    from jax.extend.core import Literal

    return isinstance(operand, Literal)


def bind_again(
    equation: "JaxprEqn", operands: Sequence[Tensor]
) -> Tensor | Sequence[Tensor]:
    """Computes an equation of a jaxpr of other operands, on JAX.

    `Primitive.get_bind_params` and `Primitive.bind`; `jax.core.eval_jaxpr`
    computes all equations as they are, and none can be replaced. JAX 0.10.

    Returns:
        A value, or a list of them where the primitive has several results.
    """
    primitive = equation.primitive
    bound = primitive.get_bind_params(equation.params)
    # Releases of JAX differ in what stands before the parameters.
    functions, params = bound if isinstance(bound, tuple) else ((), bound)
    return primitive.bind(*functions, *operands, **params)
