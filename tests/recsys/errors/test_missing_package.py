"""The command line in environments that lack a package."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest

from recsys.errors.missing_package import what_to_install

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="starts processes of its own; once is enough",
)

# Stands for an environment in which nobody has installed these. A process has
# one command, or several that need TensorFlow, with `then` between them.
WITHOUT = """
import runpy, sys
from importlib.machinery import PathFinder
missing, found = sys.argv.pop(1).split(","), PathFinder.find_spec
def find_spec(name, path=None, target=None):
    if name.partition(".")[0] not in missing:
        return found(name, path, target)
PathFinder.find_spec = find_spec
if {blank}:
    from matplotlib.figure import Figure
    from tests.blank_figures import save_blank
    Figure.savefig = save_blank
words, statuses = sys.argv[1:], set()
while words:
    stop = words.index("then") if "then" in words else len(words)
    sys.argv[1:], words = words[:stop], words[stop + 1 :]
    try:
        runpy.run_module("recsys", run_name="__main__")
    except SystemExit as end:
        statuses.add(end.code)
(status,) = statuses
sys.exit(status)
"""


def recsys_without(
    packages: str, *arguments: str, blank: bool = False, **environment: str
) -> "subprocess.CompletedProcess[str]":
    program = WITHOUT.replace("{blank}", str(blank))
    return subprocess.run(
        [sys.executable, "-c", program, packages, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(
    ("packages", "arguments", "named"),
    [
        # What `pip install '.[jax]'` leaves out.
        ("typer,rich,pandas,sklearn,matplotlib", "--help", "recsys"),
        ("pandas", "train --data synthetic --out run", "recsys"),
        ("jax", "train --data synthetic --out run --backend jax", "jax"),
        ("torch", "evaluate --run r --data d --backend torch", "torch"),
        (
            "faiss,tensorflow_recommenders,ray",
            "export --two-stage --index ivf --run r --out x then "
            "export --two-stage --index tfrs --run r --out x then "
            "tune --data synthetic --engine ray --out sweep",
            "faiss,tfrs,ray",
        ),
        ("tensorflow", "export --run run --out x", "tensorflow"),
        ("starlette", "serve --model x", "serve"),
        ("uvicorn", "serve --model x", "serve"),
    ],
)
def test_missing_package_is_one_line(
    packages: str,
    arguments: str,
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = Path(__file__).parents[3]
    monkeypatch.setenv("PYTHONPATH", str(root))
    monkeypatch.chdir(tmp_path)
    # It starts in half the time, where the command names no other.
    words = arguments.split()
    process = recsys_without(packages, *words, KERAS_BACKEND="jax")
    assert process.returncode == 1
    extras = named.split(",")
    for line, extra in zip(process.stderr.splitlines(), extras, strict=True):
        assert line.startswith("error: The package ")
        assert line.split()[3] in packages.split(",")
        assert f"pip install 'keras-moe[{extra}]'" in line
    # What it was doing may have been said, and nothing else.
    assert all(line[0] == "[" for line in process.stdout.splitlines())
    assert not list(tmp_path.iterdir())


def test_backend_of_the_environment_is_missing(tmp_path: Path) -> None:
    words = ["train", "--data", "synthetic", "--out", str(tmp_path / "run")]
    process = recsys_without("jax", *words, KERAS_BACKEND="jax")
    (line,) = process.stderr.splitlines()
    assert "package jax is missing" in line
    assert "KERAS_BACKEND names another backend" in line


@pytest.mark.parametrize("name", ["recsys.nowhere", "keras_moe.x", None])
def test_missing_module_of_our_own_is_no_package(name: str | None) -> None:
    error = ModuleNotFoundError("none", name=name)
    with pytest.raises(ModuleNotFoundError) as raised:
        what_to_install(error)
    assert raised.value is error


# What no extra but one of its own brings along, nor `recsys`.
OPTIONAL = (
    *("faiss", "httptools", "keras_hub", "lightgbm", "onnx", "onnxruntime"),
    *("orbax", "ray", "starlette", "tensorflow_recommenders", "tf2onnx"),
    *("tf_keras", "umap", "uvicorn"),
)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_a_training_needs_no_other_backend(
    backend: str, data: Path, tmp_path: Path
) -> None:
    """Where TensorFlow is always there, as a part of the extra `recsys`."""
    others = {"jax", "torch"} - {backend}
    run = tmp_path / "run"
    sizes = "--epochs 1 --num-experts 4 --expert-units 8"
    done = recsys_without(
        ",".join([*OPTIONAL, *others]),
        *f"train --data {data} --gate comet --k 2 --out {run}".split(),
        *sizes.split(),
        blank=True,
        KERAS_BACKEND=backend,
    )
    assert done.returncode == 0, done.stderr
    assert (run / "metrics.json").is_file()
