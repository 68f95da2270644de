from collections.abc import Callable
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextlib import contextmanager
from contextlib import nullcontext

import keras

from recsys.config import TrainConfig
from recsys.data.streaming.epoch_order import WHOLE
from recsys.data.streaming.epoch_order import Share
from recsys.distribution.processes import leave_processes
from recsys.process_group import shared_with
from recsys.tables import RULES
from recsys.tables.row_split import splitting_tables


@contextmanager
def distributed(config: TrainConfig, num_rows: int) -> Iterator[None]:
    """Lets all that is made inside be on the devices of a configuration.

    Where several processes share a training, they have parted at the end.

    With `distribute="data"`, each device has its share of the rows of a batch:
    on JAX by `keras.distribution.DataParallel`, with a share of the rows of
    each table that is trained by rows and all other weights; on PyTorch one
    device a process, with all weights. Steps are those that one device would
    make, but for rounding, for dropout, whose noise is drawn by each device
    for its own rows, and on PyTorch for losses of gates that look at several
    rows.

    Args:
        config: The configuration.
        num_rows: How many rows the training split has.

    Raises:
        ValueError: The backend cannot do it, or there is one device alone, or
            the rows of a batch do not divide among the devices.
    """
    if config.distribute == "none":
        yield
        return
    rows = min(config.batch_size, num_rows)
    with _SHARED[keras.backend.backend()](config, rows):
        yield
    leave_processes()


@contextmanager
def _on_jax(config: TrainConfig, rows: int) -> Iterator[None]:
    devices = keras.distribution.list_devices()
    if len(devices) == 1:
        raise ValueError(
            "`distribute` must be 'none' where JAX sees one device. Received: "
            f"distribute='data', with {devices[0]}"
        )
    _check_divides(rows, len(devices))
    distribution = keras.distribution.DataParallel(
        devices=devices, auto_shard_dataset=False
    )
    with distribution.scope(), _tables_split(config):
        yield


@contextmanager
def _on_torch(config: TrainConfig, rows: int) -> Iterator[None]:
    from recsys.distribution.torch_group import TorchGroup

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
def _on_tensorflow(config: TrainConfig, rows: int) -> Iterator[None]:
    raise ValueError(
        "`distribute` must be 'none' on TensorFlow; take `backend='jax'` for "
        "several devices or processes, or `backend='torch'` for several "
        "processes. Received: distribute='data' on tensorflow"
    )
    yield


_Scope = Callable[[TrainConfig, int], AbstractContextManager[None]]
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


def _tables_split(config: TrainConfig) -> AbstractContextManager[None]:
    """Splits the tables whose optimizer reads and writes single rows.

    Not over several processes: the one that writes could not read all rows.
    """
    import jax

    if config.table_optimizer not in RULES or jax.process_count() > 1:
        return nullcontext()
    return splitting_tables(config.min_table_rows or 1)


def process_index(config: TrainConfig) -> int:
    """Which of the processes this is that share a training, counted from 0."""
    return process_share(config).index


def process_share(config: TrainConfig) -> Share:
    """Which of the processes this is that share a training, and of how many."""
    backend = keras.backend.backend()
    if config.distribute == "none" or backend == "tensorflow":
        return WHOLE
    if backend == "torch":
        from recsys.distribution.torch_group import TorchGroup

        group = TorchGroup()
        return Share(group.index, group.count)
    import jax

    return Share(jax.process_index(), jax.process_count())
