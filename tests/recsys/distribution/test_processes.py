"""What launchers tell a process of those that it trains with."""

import pytest

from recsys.distribution.processes import Processes
from recsys.distribution.processes import join_processes

TORCHRUN = {
    "MASTER_ADDR": "first",
    "MASTER_PORT": "29500",
    "WORLD_SIZE": "4",
    "RANK": "2",
}
JAX = {
    "JAX_COORDINATOR_ADDRESS": "first:1234",
    "JAX_NUM_PROCESSES": "4",
    "JAX_PROCESS_ID": "2",
}
KERAS = {
    "KERAS_DISTRIBUTION_JOB_ADDRESSES": "first:1234,second:1234",
    "KERAS_DISTRIBUTION_NUM_PROCESSES": "4",
    "KERAS_DISTRIBUTION_PROCESS_ID": "2",
}


@pytest.mark.parametrize(
    ("variables", "address"),
    [
        (TORCHRUN, "first:29500"),
        # Its agent listens at the port that it names.
        (TORCHRUN | {"TORCHELASTIC_USE_AGENT_STORE": "True"}, "first:29501"),
        (JAX, "first:1234"),
        (KERAS, "first:1234"),
    ],
)
def test_one_of_several(variables: dict[str, str], address: str) -> None:
    assert Processes.of_environment(variables) == Processes(address, 4, 2)


@pytest.mark.parametrize(("size", "device"), [("1", None), ("2", 1)])
def test_several_on_a_machine_have_a_device_each(
    size: str, device: int | None
) -> None:
    local = {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": size}
    found = Processes.of_environment(TORCHRUN | local)
    assert found == Processes("first:29500", 4, 2, device)


@pytest.mark.parametrize(
    "variables", [{}, {"PATH": "/"}, {"WORLD_SIZE": "1", "RANK": "0"}]
)
def test_one_alone(variables: dict[str, str]) -> None:
    assert Processes.of_environment(variables) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"RANK": ""}, "RANK must be set .*Received: none"),
        ({"RANK": "4"}, "RANK must be below WORLD_SIZE, 4. Received: 4"),
        ({"RANK": "-1"}, "RANK must be an integer from 0 on.*'-1'"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE must be an integer from 1 on.*'0'"),
        ({"MASTER_ADDR": ""}, "MASTER_ADDR must be set"),
        ({"MASTER_PORT": "x"}, "MASTER_PORT must be an integer"),
    ],
)
def test_wrong_variables(change: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Processes.of_environment(TORCHRUN | change)


def test_tensorflow_does_not_train_in_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="`backend` must be 'jax' or 'torch'"):
        join_processes("tensorflow")
