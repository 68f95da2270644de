import os
import secrets
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from recsys.backend import quiet_start
from recsys.distribution.watch import Watch
from recsys.private_names import value_of_first

# The variables that say where the first process listens, how many there are
# and which one this is: torchrun's, JAX's own and those of Keras.
_TORCHRUN = ("MASTER_ADDR", "WORLD_SIZE", "RANK")
_JAX = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
_KERAS = tuple(
    f"KERAS_DISTRIBUTION_{name}"
    for name in ("JOB_ADDRESSES", "NUM_PROCESSES", "PROCESS_ID")
)


@dataclass(frozen=True)
class Processes:
    """Place of this process among those that train one model.

    Attributes:
        address: `host:port` where the first one listens.
        count: How many there are.
        index: Which one this is, counted from 0.
        device: Which one of the machine's devices this one has; `None` where
            it has all of them.
    """

    address: str
    count: int
    index: int
    device: int | None = None

    @classmethod
    def of_environment(cls, variables: Mapping[str, str]) -> Self | None:
        """Returns what a launcher has said.

        Args:
            variables: Environment variables: `MASTER_ADDR`, `MASTER_PORT`,
                `WORLD_SIZE` and `RANK`, as torchrun sets them;
                `JAX_COORDINATOR_ADDRESS`, `JAX_NUM_PROCESSES` and
                `JAX_PROCESS_ID`; or `KERAS_DISTRIBUTION_JOB_ADDRESSES`,
                `..._NUM_PROCESSES` and `..._PROCESS_ID`. `LOCAL_RANK` counts
                where `LOCAL_WORLD_SIZE` says that the machine has several.

        Returns:
            The processes; `None` where nothing is said, or there is one.

        Raises:
            ValueError: A variable is missing, or wrong.
        """
        for names in (_TORCHRUN, _JAX, _KERAS):
            if names[1] in variables:
                break
        else:
            return None
        address, count, index = names
        total = _integer(variables, count, 1)
        if total == 1:
            return None
        place = _integer(variables, index, 0)
        if place >= total:
            raise ValueError(
                f"The environment variable {index} must be below {count}, "
                f"{total}. Received: {place}"
            )
        where = _text(variables, address)
        if names is _TORCHRUN:
            where = f"{where}:{_port(variables)}"
        return cls(where.split(",")[0], total, place, _device(variables))


# Of this process, from joining the others on until parting from them.
_watches: list[Watch] = []


def join_processes(backend: str) -> Processes | None:
    """Joins the processes that the environment tells of.

    Before anything else is done with JAX. From then on until
    `leave_processes`, each process ends when another one does. All but the
    first print nothing but errors.

    Args:
        backend: What Keras will run on: "jax" or "torch", where there are
            several.

    Returns:
        What `Processes.of_environment` returns.

    Raises:
        ValueError: As there, or the backend is another one.
    """
    processes = Processes.of_environment(os.environ)
    if processes is None:
        return None
    if backend not in ("jax", "torch"):
        raise ValueError(
            "`backend` must be 'jax' or 'torch' for several processes that "
            f"train one model. Received: backend={backend!r} in process "
            f"{processes.index} of {processes.count}"
        )
    watch = Watch(processes.index, processes.count)
    output = _print_nothing()
    meet = _meet_on_jax if backend == "jax" else _meet_on_torch
    try:
        with quiet_start():
            port, token = meet(processes, watch.port)
    finally:
        if processes.index == 0:
            os.dup2(output, 1)
        os.close(output)
    watch.join(processes.address.rpartition(":")[0], port, token)
    _watches.append(watch)
    return processes


def _print_nothing() -> int:
    """Lets nothing be printed, by libraries neither; returns the output."""
    output, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return output


def _meet_on_jax(processes: Processes, port: int) -> tuple[int, int]:
    """Starts JAX; returns the first process's port, and a secret of all."""
    import jax
    import numpy as np

    # What CPUs talk to each other by; of no account to accelerators.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        processes.address,
        processes.count,
        processes.index,
        processes.device,
        # JAX would give a process of Slurm one device alone.
        cluster_detection_method="deactivate",
    )
    # JAX's handler only records the signal for those who query it.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    proposal = np.array([port, secrets.randbelow(1 << 31)], np.int32)
    port, token = value_of_first(proposal).tolist()
    return port, token


def _meet_on_torch(processes: Processes, port: int) -> tuple[int, int]:
    """As on JAX."""
    from recsys.distribution.torch_group import join
    from recsys.distribution.torch_group import of_first

    join(processes.address, processes.count, processes.index, processes.device)
    port, token = of_first([port, secrets.randbelow(1 << 31)])
    return port, token


def leave_processes() -> None:
    """Parts from the processes that trained together, all at the same time.

    Each may end then, or go on for as long as it likes. Where there are no
    others, nothing is done.
    """
    import keras

    if keras.backend.backend() == "jax":
        import jax

        jax.distributed.shutdown()
    elif keras.backend.backend() == "torch":
        from recsys.distribution.torch_group import leave

        leave()
    while _watches:
        _watches.pop().leave()


def _text(variables: Mapping[str, str], name: str) -> str:
    if not variables.get(name):
        raise ValueError(
            f"The environment variable {name} must be set for several "
            "processes. Received: none"
        )
    return variables[name]


def _integer(variables: Mapping[str, str], name: str, least: int) -> int:
    text = _text(variables, name)
    if not text.isdecimal() or int(text) < least:
        raise ValueError(
            f"The environment variable {name} must be an integer from {least} "
            f"on. Received: {text!r}"
        )
    return int(text)


def _device(variables: Mapping[str, str]) -> int | None:
    if variables.get("LOCAL_WORLD_SIZE", "1") == "1":
        return None
    return _integer(variables, "LOCAL_RANK", 0)


def _port(variables: Mapping[str, str]) -> int:
    port = _integer(variables, "MASTER_PORT", 1)
    # At its own port, torchrun's agent listens itself.
    return port + (variables.get("TORCHELASTIC_USE_AGENT_STORE") == "True")
