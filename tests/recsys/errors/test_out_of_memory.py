import numpy as np
import pytest
from keras import ops

from recsys import cli
from recsys.errors.memory import clear_memory_errors
from recsys.errors.memory import is_out_of_memory


def test_what_the_backend_raises_is_a_memory_error() -> None:
    """2^50 bytes, which no machine has."""
    with (
        pytest.raises(MemoryError, match="a request for"),
        clear_memory_errors(),
    ):
        np.asarray(ops.zeros((2**24, 2**24), "float32") + 1)


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("text", "received"),
    [
        (
            "[enforce fail at alloc_cpu.cpp:127] err == 0. "
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate "
            "4000000000000 bytes. "
            "Error code 12 (Cannot allocate memory)",
            "4,000,000,000,000 bytes",
        ),
        ("CUDA out of memory. Tried to allocate 9.25 GiB. GPU", "9.25 GiB"),
        ("RESOURCE_EXHAUSTED: Out of memory allocating 64 bytes.", "64 bytes"),
        ("std::bad_alloc", "more than is free"),
    ],
)
def test_one_line_of_the_command(
    text: str,
    received: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(*_: object, **__: object) -> None:
        raise RuntimeError(text)

    monkeypatch.setattr(cli, "app", run)
    assert cli.run(["train"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: expected more memory. Received: a request")
    assert received in line


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
        ValueError("`text` must be short. Received: 'Out of memory'"),
        KeyError("OOM when allocating"),
    ],
)
def test_other_errors_stay_what_they_are(error: Exception) -> None:
    assert not is_out_of_memory(error)
    with pytest.raises(type(error)) as caught, clear_memory_errors():
        raise error
    assert caught.value is error
