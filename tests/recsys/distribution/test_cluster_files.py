"""The job files of docs/cluster, with stand-ins for the clusters."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from recsys.distribution.processes import Processes

FOLDER = Path(__file__).parents[3] / "docs" / "cluster"

# Notes how it was called, in a file for each process.
RECSYS = """#!/bin/bash
python3 -c 'import json, os, sys
json.dump([sys.argv[1:], dict(os.environ)], open(sys.argv[1], "w"))' \
"$CALLS/$RANK.json" "$@"
"""
SCONTROL = """#!/bin/bash
[[ "$*" == "show hostnames node[7-8]" ]] && printf "node7\\nnode8\\n"
"""
SRUN = """#!/bin/bash
[[ $1 == --kill-on-bad-exit=1 ]] || exit 3
shift
for index in 0 1; do SLURM_PROCID=$index "$@" || exit 4; done
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the files that a stand-in for `recsys` writes."""
    programs = {"recsys": RECSYS, "scontrol": SCONTROL, "srun": SRUN}
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path))
    return tmp_path


def call(folder: Path, index: int) -> tuple[list[str], dict[str, str]]:
    words, variables = json.loads((folder / f"{index}.json").read_text())
    return words[1:], variables


@pytest.mark.parametrize("begun", [False, True])
def test_a_slurm_job_starts_each_process_as_what_it_is(
    begun: bool, calls: Path
) -> None:
    out = calls / "a run"
    out.mkdir()
    if begun:
        (out / "config.json").touch()
    script = FOLDER / "train.sbatch"
    subprocess.run(
        ["bash", str(script), "/data/my clicks", str(out), "--epochs", "7"],
        check=True,
        env=os.environ
        | {
            "SLURM_JOB_NODELIST": "node[7-8]",
            "SLURM_JOB_ID": "123456",
            "SLURM_NTASKS": "2",
        },
    )
    for index in range(2):
        words, variables = call(calls, index)
        assert words == [
            *("train", "--data", "/data/my clicks", "--out", str(out)),
            *("--distribute", "data", *["--resume"] * begun, "--epochs", "7"),
        ]
        assert variables["KERAS_BACKEND"] == "jax"
        found = Processes.of_environment(variables)
        assert found == Processes("node7:23456", 2, index)


def test_a_slurm_job_has_one_task_for_the_devices_of_a_machine() -> None:
    lines = (FOLDER / "train.sbatch").read_text().splitlines()
    options = [line[8:] for line in lines if line.startswith("#SBATCH ")]
    assert "--ntasks-per-node=1" in options
    # Slurm reads none after the first command.
    first = next(i for i, line in enumerate(lines) if line[:1] not in "#")
    assert not any(line.startswith("#SBATCH") for line in lines[first:])


@pytest.mark.parametrize("begun", [False, True])
def test_a_kubernetes_job_starts_each_process_as_what_it_is(
    begun: bool, calls: Path
) -> None:
    service, job = yaml.safe_load_all((FOLDER / "train.yaml").read_text())
    spec, name = job["spec"], job["metadata"]["name"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    given = {entry["name"]: entry for entry in container["env"]}
    index = given.pop("RANK")["valueFrom"]["fieldRef"]["fieldPath"]
    assert index == (
        "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    )
    assert spec["completionMode"] == "Indexed"
    values = {key: entry["value"] for key, entry in given.items()}
    assert all(isinstance(value, str) for value in values.values())
    count = spec["completions"]
    for rank in range(count):
        variables = values | {"RANK": str(rank)}
        found = Processes.of_environment(variables)
        assert found == Processes(f"{name}-0.recsys:29500", count, rank)
    check_network(service, job)
    out = calls / "run"
    out.mkdir()
    if begun:
        (out / "config.json").touch()
    subprocess.run(
        container["command"],
        check=True,
        env=os.environ | values | {"RANK": "1", "OUT": str(out)},
    )
    words, variables = call(calls, 1)
    assert words == [
        *("train", "--data", values["DATA"], "--out", str(out)),
        *("--distribute", "data", *["--resume"] * begun),
    ]


def check_network(service: Any, job: Any) -> None:
    """All pods run at once, and the service gives them names."""
    spec = job["spec"]
    assert (service["kind"], job["kind"]) == ("Service", "Job")
    assert spec["parallelism"] == spec["completions"]
    assert service["spec"]["clusterIP"] == "None"
    # While they meet, none is ready.
    assert service["spec"]["publishNotReadyAddresses"] is True
    pod = spec["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"]
    selector = service["spec"]["selector"]
    assert selector == {"job-name": job["metadata"]["name"]}
    mounted = {one["name"] for one in pod["containers"][0]["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
