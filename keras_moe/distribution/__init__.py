"""Devices that share a batch under `keras.distribution`."""

from keras_moe.distribution.devices import num_devices as num_devices
from keras_moe.distribution.devices import on_all_devices as on_all_devices
from keras_moe.distribution.devices import own_rows as own_rows
from keras_moe.distribution.devices import row_axes as row_axes
from keras_moe.distribution.expert_parallel import (
    ExpertParallel as ExpertParallel,
)
from keras_moe.distribution.shared_rows import rows_shared as rows_shared
