"""The distributions, and a training by each away from the sources."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import keras
import pytest

ROOT = Path(__file__).parents[2]
BUILT_FROM = ["keras_moe", "recsys"]
FILES = ["pyproject.toml", "README.md", "LICENSE"]
TRAINING = (
    "train --data synthetic --train-rows 200 --epochs 1 --num-experts 2 --k 1 "
    "--embedding-dim 2 --expert-units 2 --out run"
)
# What an installation says of where it comes from and goes to.
WHERE_FROM = ("RECORD", "direct_url.json")
# Importing them takes as long as the training, which does so.
WHERE_PACKAGES_ARE = f"""
import json
from importlib.util import find_spec
print(json.dumps([find_spec(name).origin for name in {BUILT_FROM}]))
"""

pytestmark = [pytest.mark.once("torch"), pytest.mark.slow]


class Built(NamedTuple):
    wheel: Path
    sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The sdist of a copy, and a wheel built from the sdist.

    A build leaves files beside the sources.
    """
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
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    return Built(wheel, sdist)


class Environment:
    """A virtual environment with the dependencies of this one alone.

    They are found where they are: nothing is downloaded.
    """

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False)
        base = {"base": str(folder), "platbase": str(folder)}
        self._scripts = Path(sysconfig.get_path("scripts", "venv", base))
        self.packages = Path(sysconfig.get_path("purelib", "venv", base))
        dependencies = Path(keras.__file__).parents[1]
        # Python reads no further `.pth` there: the sources stay out.
        (self.packages / "dependencies.pth").write_text(f"{dependencies}\n")

    def install(self, distribution: Path) -> None:
        pip = [sys.executable, "-m", "pip", "--python", self._python]
        options = "--no-deps --no-index --no-build-isolation --no-cache-dir "
        # Which would keep one of this release, with the dependencies.
        options += "--no-compile --ignore-installed"
        self._run([*pip, "install", *options.split(), distribution])

    def run_command(self, words: str, folder: Path) -> str:
        """Runs `recsys` in a folder, and returns what it prints."""
        return self._run([self._scripts / "recsys", *words.split()], folder)

    def run_python(self, code: str, folder: Path) -> str:
        return self._run([self._python, "-c", code], folder)

    def hashes(self) -> dict[str, str]:
        """The hash of each file of what was installed, by its name."""
        return {
            file.relative_to(self.packages).as_posix(): sha256(
                file.read_bytes()
            ).hexdigest()
            for file in self.packages.rglob("*")
            if file.is_file() and file.name not in WHERE_FROM
        }

    @property
    def _python(self) -> Path:
        return self._scripts / "python"

    def _run(self, command: list[str | Path], folder: Path = ROOT) -> str:
        outside = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        process = subprocess.run(
            command, cwd=folder, env=outside, capture_output=True, text=True
        )
        assert process.returncode == 0, process.stderr
        return process.stdout


def test_the_wheel_holds_every_file_of_the_packages(built: Built) -> None:
    expected = {
        file.relative_to(ROOT).as_posix()
        for name in BUILT_FROM
        for file in (ROOT / name).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    with zipfile.ZipFile(built.wheel) as archive:
        names = set(archive.namelist())
    assert {name for name in names if ".dist-info/" not in name} == expected


@pytest.fixture(scope="module")
def installed(
    built: Built, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Environment]:
    """The sdist and the wheel, each in an environment of its own."""
    environments = {}
    for name, distribution in built._asdict().items():
        folder = tmp_path_factory.mktemp("environments") / name
        environments[name] = Environment(folder)
        environments[name].install(distribution)
    return environments


def test_the_sdist_installs_the_files_of_the_wheel(
    installed: dict[str, Environment],
) -> None:
    """So one of them is enough to see that what was installed trains."""
    of_wheel = installed["wheel"].hashes()
    assert {"keras_moe/__init__.py", "recsys/__init__.py"} < of_wheel.keys()
    assert installed["sdist"].hashes() == of_wheel


def test_what_was_installed_trains(
    installed: dict[str, Environment], tmp_path: Path
) -> None:
    environment = installed["sdist"]
    places = environment.run_python(WHERE_PACKAGES_ARE, tmp_path)
    assert json.loads(places) == [
        str(environment.packages / name / "__init__.py") for name in BUILT_FROM
    ]
    environment.run_command(TRAINING, tmp_path)
    assert (tmp_path / "run" / "metrics.json").is_file()
