import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import keras
import pytest

from recsys import backend
from recsys.backend import accelerator
from recsys.runs.run import versions


def test_only_known_noise_is_left_out(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "keras")
    with backend.quiet_start():
        os.write(2, b"I0000 oneDNN custom operations are on. You may see\n")
        os.write(2, b"W0000 The disk is nearly full\n")
    assert capfd.readouterr().err == "W0000 The disk is nearly full\n"


def test_all_is_shown_after_an_error(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "keras")

    def fail() -> None:
        os.write(2, b"Could not find cuda drivers\n")
        raise ImportError

    with pytest.raises(ImportError), backend.quiet_start():
        fail()
    assert capfd.readouterr().err == "Could not find cuda drivers\n"


def test_nothing_is_held_back_once_keras_runs(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with backend.quiet_start():
        os.write(2, b"oneDNN custom operations are on\n")
        assert "oneDNN" in capfd.readouterr().err


on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="starts a process of its own; once is enough",
)


def start(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs Python where nothing keeps TensorFlow quiet."""
    environment = {**os.environ}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


@on_tensorflow
def test_python_api_starts_without_a_word() -> None:
    code = "import recsys; recsys.train; recsys.load_model; import keras"
    process = start("-c", code)
    assert process.returncode == 0
    assert process.stdout == process.stderr == ""


@on_tensorflow
def test_comparison_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "comparison.json"
    file.write_text('{"models": {"a": {"data": "synthetic", "gate": "b"}}}')
    out = str(tmp_path / "out")
    process = start("-m", "recsys", "compare", str(file), "--out", out)
    assert process.returncode == 1
    (line,) = process.stderr.splitlines()
    assert line.startswith(f"error: {file}, models.a: `gate` must be one of")


def test_backend_that_will_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = keras.backend.backend()
    assert backend.backend_to_start("any") == running
    monkeypatch.delitem(sys.modules, "keras")
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    assert backend.backend_to_start(None) == "tensorflow"
    (tmp_path / "keras.json").write_text('{"backend": "jax"}')
    assert backend.backend_to_start(None) == "jax"
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    assert backend.backend_to_start(None) == "torch"
    assert backend.backend_to_start("jax") == "jax"


def test_no_accelerator_is_named_where_there_is_none() -> None:
    assert accelerator() is None
    assert "accelerator" not in versions()


def test_an_accelerator_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    name = keras.backend.backend()
    module = import_module(name)
    if name == "torch":
        monkeypatch.setattr(module.cuda, "is_available", lambda: True)
        monkeypatch.setattr(module.cuda, "get_device_name", lambda: "H100")
    elif name == "jax":
        device = SimpleNamespace(platform="gpu", device_kind="H100")
        monkeypatch.setattr(module, "devices", lambda: [device])
    else:
        config, details = module.config, {"device_name": "H100"}
        devices = [SimpleNamespace(device_type="GPU")]
        monkeypatch.setattr(config, "list_physical_devices", lambda _: devices)
        monkeypatch.setattr(
            config.experimental, "get_device_details", lambda _: details
        )
    assert versions()["accelerator"] == "H100"
