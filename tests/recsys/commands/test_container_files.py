"""The files that build, start and watch containers: they agree."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
import yaml

from recsys.cli import app
from recsys.private_names import click_exception
from recsys.serving.monitoring.known_ids import KnownIds
from recsys.serving.monitoring.server_metrics import ServerMetrics
from recsys.serving.serve_options import ServeOptions
from recsys.serving.tensor_spec import TensorSpec

parser = pytest.importorskip("prometheus_client.parser")

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICE, DEPLOYMENT = yaml.safe_load_all(
    (ROOT / "docs/cluster/serve.yaml").read_text()
)
GRAFANA = ROOT / "deploy/grafana"
DASHBOARD = json.loads((GRAFANA / "dashboards/recsys.json").read_text())
PAGE = (ROOT / "docs/containers.md").read_text()
SERVER = COMPOSE["services"]["server"]
POD = DEPLOYMENT["spec"]["template"]
CONTAINER = POD["spec"]["containers"][0]
PORT = ServeOptions().port
EXPRESSIONS = [
    target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
]


def parsed(words: list[str]) -> dict[str, Any]:
    """What the command line takes the words after `recsys` for."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    name, *options = words
    context = commands[name].make_context(name, options)
    return dict(context.params)


def image_command() -> list[str]:
    """What the image for serving does unless told otherwise."""
    found = re.findall(r"^CMD (.*)$", DOCKERFILE, re.MULTILINE)
    return list(json.loads(found[-1]))


def page_commands() -> list[list[str]]:
    """The words after `recsys` of the page's commands for the trainer."""
    script = PAGE.replace("\\\n", " ")
    lines = re.findall(r"^docker compose run --rm trainer (.*)$", script, re.M)
    return [shlex.split(line) for line in lines]


@pytest.mark.parametrize(
    "words", [image_command(), SERVER["command"], CONTAINER["args"]]
)
def test_a_server_is_reached_from_outside_its_container(
    words: list[str],
) -> None:
    options = parsed(words)
    assert options["host"] == "0.0.0.0"
    assert options["port"] == PORT
    assert str(options["model"]) == "/models"
    assert options["name"] == "ranker"


@pytest.mark.parametrize("words", [SERVER["command"], CONTAINER["args"]])
def test_what_is_deployed_serves_accepted_versions_and_logs(
    words: list[str],
) -> None:
    options = parsed(words)
    assert options["promoted_only"]
    assert options["access_log"] == "-"


def test_commands_of_the_page_parse() -> None:
    commands = page_commands()
    assert [words[0] for words in commands] == [
        *("train", "export", "promote"),
        *("train", "export", "promote", "predict"),
    ]
    for words in commands:
        parsed(words)


def test_an_option_that_there_is_not_would_be_seen() -> None:
    with pytest.raises(click_exception(), match="--promote-only"):
        parsed(["serve", "--model=/models", "--promote-only"])


def test_the_images_do_not_run_as_root() -> None:
    user = re.findall(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)
    added = re.findall(r"useradd --uid (\d+)", DOCKERFILE)
    run_as = POD["spec"]["securityContext"]
    assert [run_as["runAsUser"]] == [int(user[0])] == [int(added[0])]
    assert run_as["runAsNonRoot"] is True
    # No later stage goes back.
    assert DOCKERFILE.count("USER ") == 1


def test_the_context_has_what_is_packaged() -> None:
    kept = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    assert all((ROOT / path).exists() for path in kept)
    project = (ROOT / "pyproject.toml").read_text()
    needed = re.findall(r'^readme = "(.*)"$', project, re.MULTILINE)
    assert {*needed, "LICENSE", "pyproject.toml"} <= kept
    extras = re.findall(r"^ARG EXTRAS=(.*)$", DOCKERFILE, re.MULTILINE)[0]
    for extra in extras.split(","):
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE), extra


def test_volumes_are_mounted_where_commands_look() -> None:
    owned = re.findall(r"chown recsys:recsys (.*)$", DOCKERFILE, re.MULTILINE)
    folders = set(owned[0].split())
    for name in ("trainer", "server"):
        for volume in COMPOSE["services"][name]["volumes"]:
            source, target = volume.split(":")[:2]
            assert target in folders
            assert source.startswith("./") or source in COMPOSE["volumes"]
    paths = [word for words in page_commands() for word in words if "/" in word]
    assert paths
    assert all("/" + path.split("/")[1] in folders for path in paths)
    mounted = {
        one["name"]: one["mountPath"] for one in CONTAINER["volumeMounts"]
    }
    assert mounted["models"] == "/models"
    assert mounted.keys() == {one["name"] for one in POD["spec"]["volumes"]}


def test_ports_agree() -> None:
    assert SERVER["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert f"\nEXPOSE {PORT}\n" in DOCKERFILE
    assert f"http://127.0.0.1:{PORT}/healthz" in DOCKERFILE
    assert CONTAINER["ports"] == [{"name": "http", "containerPort": PORT}]
    assert SERVICE["spec"]["ports"][0]["targetPort"] == "http"
    assert SERVICE["spec"]["selector"] == POD["metadata"]["labels"]
    assert (
        DEPLOYMENT["spec"]["selector"]["matchLabels"]
        == (POD["metadata"]["labels"])
    )
    notes = POD["metadata"]["annotations"]
    assert notes["prometheus.io/port"] == str(PORT)
    assert notes["prometheus.io/path"] == "/metrics"
    services = COMPOSE["services"].values()
    for published in (p for s in services for p in s.get("ports", [])):
        assert published.startswith("127.0.0.1:")


def test_probes_ask_what_the_server_answers() -> None:
    paths = {
        probe: CONTAINER[f"{probe}Probe"]["httpGet"]
        for probe in ("startup", "readiness", "liveness")
    }
    assert paths == {
        "startup": {"path": "/readyz", "port": "http"},
        "readiness": {"path": "/readyz", "port": "http"},
        "liveness": {"path": "/healthz", "port": "http"},
    }


def test_a_server_may_finish_what_is_under_way() -> None:
    needed = ServeOptions().request_timeout + 5
    assert float(SERVER["stop_grace_period"].removesuffix("s")) >= needed
    pause = float(CONTAINER["lifecycle"]["preStop"]["exec"]["command"][1])
    grace = POD["spec"]["terminationGracePeriodSeconds"]
    assert grace >= needed + pause


def test_prometheus_and_grafana_find_each_other() -> None:
    services = COMPOSE["services"]
    mounts = {
        source: target
        for name in ("prometheus", "grafana")
        for source, target in (
            volume.split(":")[:2] for volume in services[name]["volumes"]
        )
    }
    assert all((ROOT / path).exists() for path in mounts if path[0] == ".")
    config = yaml.safe_load((ROOT / "deploy/prometheus.yaml").read_text())
    (job,) = config["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"server:{PORT}"]}]
    assert job["metrics_path"] == "/metrics"
    provisioning = GRAFANA / "provisioning"
    (source,) = yaml.safe_load(
        (provisioning / "datasources/prometheus.yaml").read_text()
    )["datasources"]
    host, port = source["url"].removeprefix("http://").split(":")
    assert services[host]["ports"] == [f"127.0.0.1:{port}:{port}"]
    interval = config["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == interval
    (provider,) = yaml.safe_load(
        (provisioning / "dashboards/recsys.yaml").read_text()
    )["providers"]
    assert provider["options"]["path"] == mounts["./deploy/grafana/dashboards"]
    for panel in DASHBOARD["panels"]:
        for part in (panel, *panel["targets"]):
            assert part["datasource"]["uid"] == source["uid"]


@pytest.fixture(scope="module")
def exposed() -> dict[str, set[str]]:
    """The labels of every series that a server has, by its name."""
    status = {
        "model_version_status": [{"version": "1", "state": "AVAILABLE"}],
        "shedding": {"budget_cap": 2.0},
    }
    metrics = ServerMetrics()
    metrics.watch(lambda: status)
    metrics.answered("predict", 503, 0.1)
    spec = TensorSpec("int64", (None,))
    known = KnownIds({"user": spec}, {"user": np.array([1])})
    outputs = {"watch": np.ones(1), "watch/experts": np.ones((1, 2))}
    metrics.computed("1", known, {"user": np.array([1])}, outputs, 0.1)
    text = metrics.exposition().decode()
    labels: dict[str, set[str]] = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_dashboard_asks_for_what_there_is(
    expression: str, exposed: dict[str, set[str]]
) -> None:
    names = set(re.findall(r"\brecsys_\w+", expression))
    assert names
    assert names <= exposed.keys()
    by = re.findall(r"\b(?:by|on) \(([^)]*)\)", expression)
    used = {label for group in by for label in group.split(", ")}
    used |= set(re.findall(r"[{,](\w+)=", expression))
    given = set.union(*(exposed[name] for name in names))
    # Prometheus adds where a series comes from.
    assert used <= given | {"instance"}


def test_the_dashboard_shows_every_metric(
    exposed: dict[str, set[str]],
) -> None:
    shown = " ".join(EXPRESSIONS)
    for name in exposed:
        base = re.sub(r"_(bucket|count|sum|created)$", "", name)
        assert base in shown


def test_panels_have_places_of_their_own() -> None:
    panels = DASHBOARD["panels"]
    places = {(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels}
    assert len({p["id"] for p in panels}) == len(places) == len(panels)
