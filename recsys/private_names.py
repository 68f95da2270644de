"""The only file of this package that touches private names of other libraries.

Private is what a library does not document for users: it may change in any
minor release. Each function says which names it uses, why no public one will
do, and with which releases its tests have passed. `pyproject.toml` ends below
the next ones. Libraries are imported when a function needs them.
"""

import sys
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

if TYPE_CHECKING:
    import jax
    import keras
    import keras_tuner
    import numpy as np
    import tensorflow as tf

    from keras_moe.types import Tensor


def each_layer(layer: "keras.layers.Layer") -> "list[keras.layers.Layer]":
    """Returns a layer and all layers in it, at any depth, each once.

    `Layer._flatten_layers` of Keras; `Model.layers` is public, but lists only
    what is directly in a model, and a `Layer` has no such list. Keras 3.12 to
    3.15.
    """
    layers: list[keras.layers.Layer] = layer._flatten_layers()
    return layers


def inner_layers(layer: "keras.layers.Layer") -> "list[keras.layers.Layer]":
    """Returns the layers that are directly in a layer, each once.

    `Layer._flatten_layers` of Keras; a `Model` alone has a public list, as
    `each_layer` says. Keras 3.12 to 3.15.
    """
    return list(layer._flatten_layers(include_self=False, recursive=False))


def table_of(embedding: "keras.layers.Embedding") -> "keras.Variable":
    """Returns the variable of an embedding.

    `Embedding._embeddings` of Keras; the public `embeddings` is no variable
    while LoRA or a quantization is on. Keras 3.12 to 3.15.
    """
    return embedding._embeddings


def replace_layer(
    owner: "keras.layers.Layer",
    layers: "dict[str, Any]",
    name: str,
    layer: "keras.layers.Layer",
) -> None:
    """Puts another layer in the place of one that a built layer holds.

    `Layer._tracker` of Keras, its `lock` and `unlock`; a built layer takes no
    new layers, and a copy of it would hold what the old one does until both
    are gone. Keras 3.12 to 3.15.

    Args:
        owner: The built layer.
        layers: An attribute of it, the layers by name.
        name: That of the old one.
        layer: The new one.
    """
    owner._tracker.unlock()
    try:
        layers.pop(name)
        layers[name] = layer
    finally:
        owner._tracker.lock()


def sharing_layers() -> AbstractContextManager[object]:
    """Within it, a layer that several configurations hold is made once.

    `ObjectSharingScope` of `keras.src.saving.serialization_lib`; only Keras's
    own loading of files enters it, and without it a layer that others share, as
    gates do a permutation, comes back as several. Keras 3.12 to 3.15.
    """
    from keras.src.saving.serialization_lib import ObjectSharingScope

    scope: AbstractContextManager[object] = ObjectSharingScope()
    return scope


def loss_and_updates(
    model: "keras.Model", *state: object, **options: object
) -> Any:
    """Returns what a training step on JAX differentiates, and what it keeps.

    `Model.compute_loss_and_updates` of Keras on JAX, its arguments and results;
    Keras's guides show it, its reference does not, and `stateless_call` knows
    neither losses nor their scale. Keras 3.12 to 3.15.
    """
    return model.compute_loss_and_updates(*state, **options)


def write_state_back(model: "keras.Model") -> None:
    """Gives variables the values that `fit` holds, within an epoch on JAX.

    `Model.jax_state_sync` of Keras, which its own callbacks call; outside of
    `fit` nothing is to be done. Keras 3.12 to 3.15.
    """
    model.jax_state_sync()


@contextmanager
def tensorflow_left_out() -> Iterator[None]:
    """Lets Keras do without TensorFlow inside, unless it is imported already.

    `LazyModule` of `keras.src.utils.module_utils`, and its `_available`; on
    any backend the public `keras.utils.set_random_seed` seeds TensorFlow, and
    `Model.save` asks of each part of a model whether it is one of
    TensorFlow's, and both import it for that, which takes seconds. Keras 3.12
    to 3.15.
    """
    from keras.src.utils.module_utils import tensorflow

    if "tensorflow" in sys.modules:
        yield
        return
    known, tensorflow._available = tensorflow._available, False
    try:
        yield
    finally:
        tensorflow._available = known


def set_number_of_batches(dataset: "tf.data.Dataset", batches: int) -> None:
    """Says how many steps a distributed data set of TensorFlow is good for.

    `DistributedDataset._cardinality` of TensorFlow, which Keras takes for the
    number of steps; of a public `assert_cardinality`, it counts the shares.
    TensorFlow 2.21.
    """
    dataset._cardinality = batches


def track_variable(
    optimizer: "keras.optimizers.Optimizer", variable: "keras.Variable"
) -> None:
    """Makes a variable part of an optimizer's state, which is saved with it.

    `Optimizer._track_variable` of Keras; the public `add_variable` makes the
    variable itself, and takes none of a generator or of another optimizer.
    Keras 3.12 to 3.15.
    """
    optimizer._track_variable(variable)


def drop_learning_rate(optimizer: "keras.optimizers.Optimizer") -> None:
    """Takes an optimizer's learning rate out of its state.

    `_untrack_variable` and `_learning_rate` of Keras's optimizers; every
    optimizer has such a variable, and none can be removed. Keras 3.12 to 3.15.
    """
    optimizer._untrack_variable(optimizer._learning_rate)


def index_of(
    optimizer: "keras.optimizers.Optimizer", variable: "keras.Variable"
) -> int:
    """Returns the place of a weight among those an optimizer was built with.

    `Optimizer._get_variable_index` of Keras; on TensorFlow, an optimizer is
    given other objects than it was built with. Keras 3.12 to 3.15.
    """
    return int(optimizer._get_variable_index(variable))


def clip(
    optimizer: "keras.optimizers.Optimizer", gradients: "Sequence[Tensor]"
) -> "list[Tensor]":
    """Returns gradients clipped by an optimizer's options.

    `Optimizer._clip_gradients` of Keras; `apply` alone clips, and changes
    weights in the same call. Keras 3.12 to 3.15.
    """
    return list(optimizer._clip_gradients(gradients))


def step_without_clipping(
    optimizer: "keras.optimizers.Optimizer",
    gradients: "Sequence[Tensor]",
    variables: "Sequence[Tensor]",
) -> None:
    """Changes weights by an optimizer, and does not count the step.

    `_apply_weight_decay` and `_backend_update_step` of Keras's optimizers; the
    public `apply` clips and counts as well. Keras 3.12 to 3.15.
    """
    optimizer._apply_weight_decay(variables)
    optimizer._backend_update_step(
        list(gradients), list(variables), optimizer.learning_rate
    )


class OwnStep:
    """Mixed into an optimizer of Keras, lets it take a whole step its own way.

    `_backend_apply_gradients` and `_backend_update_step` of Keras's optimizers;
    the public `apply` would have to be written anew, with the scopes and checks
    that come before the step. Keras 3.12 to 3.15.
    """

    def take_step(
        self, gradients: "Sequence[Tensor]", variables: "Sequence[Tensor]"
    ) -> None:
        """Changes weights, called by `apply` with those that have gradients."""
        raise NotImplementedError

    def update_each(
        self, gradients: "Sequence[Tensor]", variables: "Sequence[Tensor]"
    ) -> None:
        """Calls `update_step` for each weight, without a learning rate.

        On TensorFlow, this adds up what several replicas have.
        """
        optimizer: Any = self
        optimizer._backend_update_step(gradients, variables, None)

    def _backend_apply_gradients(
        self, grads: "Sequence[Tensor]", trainable_variables: "Sequence[Tensor]"
    ) -> None:
        self.take_step(grads, trainable_variables)


def assign_any_shape(variable: "tf.Variable", value: "Tensor") -> None:
    """Gives a variable of TensorFlow a value that may have another shape.

    `tf.raw_ops.AssignVariableOp`; the public `Variable.assign` compares the
    shapes. TensorFlow 2.21.

    Args:
        variable: A `tf.Variable`.
        value: Tensor of the same type.
    """
    import tensorflow as tf

    tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)


def gather_all(array: "jax.Array") -> "np.ndarray":
    """Returns all of an array that is spread over processes, on JAX.

    `multihost_utils.process_allgather` of `jax.experimental`, which stands
    outside of JAX's promises; nothing else gathers on hosts. JAX 0.10.
    """
    from jax.experimental import multihost_utils

    return multihost_utils.process_allgather(array, tiled=True)


def value_of_first(array: "np.ndarray") -> "np.ndarray":
    """Returns the array of the first of all processes, on JAX.

    `multihost_utils.broadcast_one_to_all` of `jax.experimental`; as of
    `gather_all`, there is no other. JAX 0.10.
    """
    from jax.experimental import multihost_utils

    return multihost_utils.broadcast_one_to_all(array)


def wait_for_all(place: str) -> None:
    """Waits until all processes are here, on JAX.

    `multihost_utils.sync_global_devices` of `jax.experimental`; as of
    `gather_all`, there is no other. JAX 0.10.

    Args:
        place: A name of this place in the program.
    """
    from jax.experimental import multihost_utils

    multihost_utils.sync_global_devices(place)


def frozen_graph(
    concrete: "tf.types.experimental.ConcreteFunction",
    inputs: list[str],
    outputs: list[str],
) -> "tf.compat.v1.GraphDef":
    """Returns the graph of a function of TensorFlow, variables made constants.

    `tf2onnx.tf_loader.from_function`; the public `tf2onnx.convert` converts at
    once, and names inputs in its own way. tf2onnx 1.17.

    Args:
        concrete: The concrete function.
        inputs: Names of the tensors it takes.
        outputs: Names of the tensors it returns.
    """
    from tf2onnx import tf_loader

    return tf_loader.from_function(concrete, inputs, outputs)


def onnx_graph(
    graph: "tf.Graph",
    handlers: Mapping[str, Callable[..., object]],
    **options: object,
) -> Any:
    """Returns tf2onnx's graph of one of TensorFlow.

    `tf2onnx.tfonnx.process_tf_graph`, its options; the public `tf2onnx.convert`
    takes no names for the tensors. tf2onnx 1.17.

    Args:
        graph: A `tf.Graph`.
        handlers: Functions that convert operations, by the operations' names.
        **options: Those of `process_tf_graph`.
    """
    from tf2onnx import tfonnx

    op_handlers: dict[str, object] = {
        name: (handler, []) for name, handler in handlers.items()
    }
    return tfonnx.process_tf_graph(
        graph, custom_op_handlers=op_handlers, **options
    )


def onnx_errors() -> tuple[type[Exception], ...]:
    """Returns what ONNX Runtime raises where a model cannot compute.

    Three classes of `onnxruntime.capi.onnxruntime_pybind11_state`; no public
    module exports them. ONNX Runtime 1.32.
    """
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return state.Fail, state.InvalidArgument, state.RuntimeException


class OracleInOneFile:
    """Mixed into an oracle of KerasTuner, keeps files of trials from it.

    `_get_oracle_fname`, `_save_trial` and `_retry_queue` of KerasTuner's
    `Oracle`; it documents no other way to keep its state. KerasTuner 1.4.7 and
    1.4.8.
    """

    @property
    def state_file(self) -> Path:
        """The file that `save` writes and `reload` reads."""
        oracle: Any = self
        return Path(oracle._get_oracle_fname())

    def do_not_retry(self, trials: Iterable[str]) -> None:
        """Takes trials out of those that are to be run again."""
        oracle: Any = self
        ended = set(trials)
        oracle._retry_queue = [
            trial for trial in oracle._retry_queue if trial not in ended
        ]

    def _save_trial(self, trial: object) -> None:
        """Leaves it to `save`, which always follows."""


def seed_bayesian(
    oracle: "keras_tuner.oracles.BayesianOptimizationOracle",
    seed: Sequence[int],
) -> None:
    """Seeds the generator of a Bayesian oracle of KerasTuner anew.

    `BayesianOptimizationOracle._random_state` of KerasTuner; its state is in no
    saved file, and a seed can only be given once. KerasTuner 1.4.7 and 1.4.8.
    """
    import numpy as np

    oracle._random_state = np.random.RandomState(seed)


def http_protocol() -> Any:
    """Returns the class of a connection of uvicorn's HTTP server.

    `uvicorn.protocols.http.httptools_impl.HttpToolsProtocol`, to be derived
    from; uvicorn's options bound neither heads nor the time of a request.
    uvicorn 0.54.
    """
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    return HttpToolsProtocol


def click_exception() -> Any:
    """Returns the class of all errors that Typer explains to users.

    The base classes of `typer.BadParameter`; recent releases of Typer carry a
    copy of click of their own, and export no more of it. Typer 0.29.
    """
    import typer

    return typer.BadParameter.__mro__[2]


def set_allocator(parameter: int, value: int) -> None:
    """Sets a parameter of glibc's allocator for this process.

    `mallopt` of the C library, documented by `man 3 mallopt`; Python has no
    name for it, and the environment is read before Python starts. glibc 2.36.
    """
    import ctypes

    ctypes.CDLL(None).mallopt(parameter, value)
