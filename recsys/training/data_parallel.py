import os
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextlib import contextmanager
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING

import keras

from keras_moe.distribution import ExpertParallel
from recsys.config.optimizers import TABLE_RULES
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.data.streaming.epoch_order import WHOLE
from recsys.data.streaming.epoch_order import Share
from recsys.distribution.process_group import shared_with
from recsys.distribution.processes import leave_processes
from recsys.tables.row_split import splitting_tables

if TYPE_CHECKING:
    import tensorflow as tf


@contextmanager
def distributed(config: ResolvedConfig, num_rows: int) -> Iterator[None]:
    """Lets all that is made inside be on the devices of a configuration.

    Where several processes share a training, they have parted at the end.

    Each device has its share of the rows of a batch. On JAX, the devices of
    `keras.distribution` have a share of the rows of each table that is trained
    by rows, too, all other weights, but of the experts a share if the
    configuration says so; on PyTorch each process has one device, with all
    weights, and on TensorFlow each device of one process has them. Steps are
    those that one device would make, but for rounding, for dropout, whose
    noise is drawn by each device for the rows it computes, and on PyTorch and
    TensorFlow for losses of gates that look at several rows.

    Args:
        config: The configuration.
        num_rows: How many rows the training split has.

    Raises:
        ValueError: The backend cannot do it, or there is one device alone, or
            the rows of a batch, or the experts, do not divide among the
            devices.
    """
    if config.distribute == "none":
        yield
        return
    rows = min(config.batch_size, num_rows)
    with _SHARED[keras.backend.backend()](config, rows):
        yield
    leave_processes()


@contextmanager
def _on_jax(config: ResolvedConfig, rows: int) -> Iterator[None]:
    devices = keras.distribution.list_devices()
    if len(devices) == 1:
        raise ValueError(
            "`distribute` must be 'none' where JAX sees one device. Received: "
            f"distribute={config.distribute!r}, with {devices[0]}"
        )
    _check_divides(rows, len(devices))
    if config.distribute == "data":
        distribution = keras.distribution.DataParallel(
            devices=devices, auto_shard_dataset=False
        )
    else:
        distribution = expert_parallel(config, devices)
    with distribution.scope(), _tables_split(config):
        yield


@contextmanager
def _on_torch(config: ResolvedConfig, rows: int) -> Iterator[None]:
    from recsys.distribution.torch_group import TorchGroup

    if config.distribute != "data":
        raise ValueError(
            "`distribute` must be 'data' or 'none' on PyTorch; devices divide "
            "experts on JAX. Received: "
            f"distribute={config.distribute!r} on torch"
        )
    group = TorchGroup()
    if group.count == 1:
        raise ValueError(
            "`distribute` must be 'none' on PyTorch for a process that is "
            "alone; `torchrun --nproc-per-node 2 -m recsys train` starts "
            "several, with a device each. Received: distribute='data' in one "
            "process"
        )
    _check_divides(rows, group.count)
    with shared_with(group):
        yield


@contextmanager
def _on_tensorflow(config: ResolvedConfig, rows: int) -> Iterator[None]:
    import tensorflow as tf

    from recsys.distribution.replicas import Replicas

    _check_on_tensorflow(config)
    devices = [
        device.name
        for device in tf.config.list_logical_devices("GPU")
        or tf.config.list_logical_devices("CPU")
    ]
    if len(devices) == 1:
        raise ValueError(
            "`distribute` must be 'none' where TensorFlow sees one device; "
            "take `backend='jax'` for several processes. Received: "
            f"distribute='data', with {devices[0]}"
        )
    _check_divides(rows, len(devices))
    strategy = _mirrored(tuple(devices))
    with strategy.scope(), shared_with(Replicas(strategy)):
        yield


@cache
def _mirrored(devices: tuple[str, ...]) -> "tf.distribute.MirroredStrategy":
    """Returns the process's one `tf.distribute.MirroredStrategy` of devices.

    Each strategy numbers its collective operations from the same start, and
    TensorFlow keeps the shape of each number for as long as the process lives:
    a second strategy could reduce nothing but gradients of the first's shapes.
    """
    import tensorflow as tf

    return tf.distribute.MirroredStrategy(list(devices))


def _check_on_tensorflow(config: ResolvedConfig) -> None:
    """Raises an error for what replicas of one process cannot do."""
    if config.distribute != "data":
        raise ValueError(
            "`distribute` must be 'data' or 'none' on TensorFlow; devices "
            "divide experts on JAX, `backend='jax'`. Received: "
            f"distribute={config.distribute!r} on tensorflow"
        )
    if "TF_CONFIG" in os.environ:
        raise ValueError(
            "`backend` must be 'jax' or 'torch' for several processes that "
            "train one model. Received: backend='tensorflow', with TF_CONFIG "
            "in the environment"
        )
    if config.retrieval:
        raise ValueError(
            "`distribute` must be 'none' on TensorFlow for a model with "
            "`retrieval`; take `backend='jax'`. Received: distribute='data', "
            "retrieval=True"
        )


_Scope = Callable[[ResolvedConfig, int], AbstractContextManager[None]]
_SHARED: dict[str, _Scope] = {
    "jax": _on_jax,
    "torch": _on_torch,
    "tensorflow": _on_tensorflow,
}


def _check_divides(rows: int, devices: int) -> None:
    if rows % devices:
        raise ValueError(
            f"`batch_size` must be divisible by the {devices} devices. "
            f"Received: batches of {rows} rows"
        )


def _tables_split(config: ResolvedConfig) -> AbstractContextManager[None]:
    """Splits the tables whose optimizer reads and writes single rows."""
    if config.table_optimizer not in TABLE_RULES:
        return nullcontext()
    return splitting_tables(config.min_table_rows)


def process_index(config: TrainConfig) -> int:
    """Index of this process among those that share a training."""
    return process_share(config).index


def process_share(config: TrainConfig) -> Share:
    """Index of this process in a shared training, and number of processes."""
    backend = keras.backend.backend()
    if config.distribute == "none" or backend == "tensorflow":
        return WHOLE
    if backend == "torch":
        from recsys.distribution.torch_group import TorchGroup

        group = TorchGroup()
        return Share(group.index, group.count)
    import jax

    return Share(jax.process_index(), jax.process_count())


def expert_parallel(
    config: ResolvedConfig, devices: list[str]
) -> ExpertParallel:
    """Divides devices into groups that have all experts together, on JAX.

    Args:
        config: The configuration, whose `distribute` is `"experts"` or
            `"both"`.
        devices: All devices.

    Raises:
        ValueError: The devices of a group do not divide all devices, or the
            experts.
    """
    size = _group_size(config, len(devices))
    shape, names = [len(devices) // size, size], ["batch", "experts"]
    if size == len(devices):
        # Devices would ask, for each sum, those along an axis of one.
        shape, names = shape[1:], names[1:]
    mesh = keras.distribution.DeviceMesh(tuple(shape), names, devices)
    return ExpertParallel(mesh, auto_shard_dataset=False)


def _group_size(config: ResolvedConfig, num_devices: int) -> int:
    """Number of devices that have all experts together."""
    size = config.expert_devices
    if (size is None) != (config.distribute == "experts"):
        raise ValueError(
            "`expert_devices` must be given with distribute='both', and left "
            "out with 'experts', which takes all devices. Received: "
            f"distribute={config.distribute!r}, expert_devices={size}"
        )
    size = size or num_devices
    if num_devices % size or config.routed_experts % size:
        raise ValueError(
            "The devices that divide the experts must divide both "
            "`num_experts` times `split_experts` and all devices, "
            f"{num_devices}. Received: split_experts={config.split_experts}, "
            f"num_experts={config.num_experts}, on {size} devices"
        )
    return size
