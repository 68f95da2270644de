import keras

from keras_moe.distribution import ExpertParallel
from recsys.config import TrainConfig


def expert_parallel(config: TrainConfig, devices: list[str]) -> ExpertParallel:
    """Divides devices into groups that have all experts together, on JAX.

    Args:
        config: The configuration, whose `distribute` is `"experts"` or
            `"both"`.
        devices: All devices.

    Raises:
        ValueError: The devices of a group do not divide all devices, or the
            experts; or there are several processes.
    """
    size = _group_size(config, len(devices))
    mesh = keras.distribution.DeviceMesh(
        (len(devices) // size, size), ["batch", "experts"], devices
    )
    return ExpertParallel(mesh, auto_shard_dataset=False)


def _group_size(config: TrainConfig, num_devices: int) -> int:
    """How many devices have all experts together."""
    import jax

    size = config.expert_devices
    if (size is None) != (config.distribute == "experts"):
        raise ValueError(
            "`expert_devices` must be given with distribute='both', and left "
            "out with 'experts', which takes all devices. Received: "
            f"distribute={config.distribute!r}, expert_devices={size}"
        )
    size = size or num_devices
    if num_devices % size or (config.num_experts or size) % size:
        raise ValueError(
            "The devices that divide the experts must divide both "
            f"`num_experts` and all devices, {num_devices}. Received: "
            f"num_experts={config.num_experts}, on {size} devices"
        )
    if jax.process_count() > 1:
        raise ValueError(
            "`distribute` must be 'data' where several processes train: the "
            "one that writes could not read the experts of all. Received: "
            f"distribute={config.distribute!r}"
        )
    return size
