import keras

from keras_moe.distribution import ExpertParallel
from recsys.config.resolved_config import ResolvedConfig


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
