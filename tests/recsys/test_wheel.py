"""The wheel, built from the source distribution, away from the sources."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILT_FROM = ["keras_moe", "recsys"]
FILES = ["pyproject.toml", "README.md", "LICENSE"]

pytestmark = [pytest.mark.once("torch"), pytest.mark.slow]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built of a copy: a build leaves files beside the sources."""
    copy, dist = (tmp_path_factory.mktemp(name) for name in ("copy", "dist"))
    for name in BUILT_FROM:
        shutil.copytree(
            ROOT / name,
            copy / name,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    for name in FILES:
        shutil.copy(ROOT / name, copy)
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "-o", dist, copy],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (built,) = dist.glob("*.whl")
    return built


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    expected = {
        file.relative_to(ROOT).as_posix()
        for name in BUILT_FROM
        for file in (ROOT / name).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name for name in names if ".dist-info/" not in name} == expected


def test_what_was_installed_of_the_wheel_trains(
    wheel: Path, tmp_path: Path
) -> None:
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    words = "--data synthetic --train-rows 200 --epochs 1 --num-experts 2"
    words += " --k 1 --embedding-dim 2 --expert-units 2 --out run"
    code = (
        "import recsys, sys; from recsys.__main__ import main;"
        f"assert recsys.__file__.startswith({str(installed)!r}); main()"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, "train", *words.split()],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    assert (tmp_path / "run" / "metrics.json").is_file()
