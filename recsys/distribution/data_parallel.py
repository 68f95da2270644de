from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextlib import contextmanager
from contextlib import nullcontext

import keras

from recsys.config import TrainConfig
from recsys.data.streaming.epoch_order import WHOLE
from recsys.data.streaming.epoch_order import Share
from recsys.distribution.processes import leave_processes
from recsys.tables import RULES
from recsys.tables.row_split import splitting_tables


@contextmanager
def distributed(config: TrainConfig, num_rows: int) -> Iterator[None]:
    """Lets all that is made inside be on the devices of a configuration.

    Where several processes share a training, they have parted at the end.

    With `distribute="data"`, each device has its share of the rows of a batch
    and of each table that is trained by rows, and all other weights:
    `keras.distribution.DataParallel`. Steps are those that
    one device would make, but for rounding and for dropout, whose noise is
    drawn by each device for its own rows.

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
    if keras.backend.backend() != "jax":
        raise ValueError(
            "`distribute` must be 'none' on any backend but JAX "
            "(`backend='jax'`). Received: "
            f"distribute={config.distribute!r} on {keras.backend.backend()}"
        )
    devices = keras.distribution.list_devices()
    if len(devices) == 1:
        raise ValueError(
            "`distribute` must be 'none' where JAX sees one device. Received: "
            f"distribute={config.distribute!r}, with {devices[0]}"
        )
    rows = min(config.batch_size, num_rows)
    if rows % len(devices):
        raise ValueError(
            f"`batch_size` must be divisible by the {len(devices)} devices. "
            f"Received: batches of {rows} rows"
        )
    distribution = keras.distribution.DataParallel(
        devices=devices, auto_shard_dataset=False
    )
    with distribution.scope(), _tables_split(config):
        yield
    leave_processes()


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
    if config.distribute == "none" or keras.backend.backend() != "jax":
        return WHOLE
    import jax

    return Share(jax.process_index(), jax.process_count())
