import gzip
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pandas as pd
import pytest
import typer

import recsys
from benchmarks.shelf_page import RESULTS
from recsys import TrainConfig
from recsys.baselines.config import BaselineConfig
from recsys.cli import app
from recsys.commands.options import given_fields
from recsys.data.prepare import DATA_SETS
from recsys.errors import DataError
from recsys.processes.command_process import command_words
from recsys.reporting.shelf import BENCHMARKS
from recsys.reporting.shelf.benchmark import Benchmark
from recsys.reporting.shelf.benchmark import Published
from recsys.reporting.shelf.benchmark import Setting
from recsys.reporting.shelf.benchmark import ShelfFile
from recsys.reporting.shelf.shelf_page import shelf_page
from recsys.reporting.shelf.shelf_page import shelf_table
from tests.recsys.processes.commands_here import CommandsHere

pytestmark = pytest.mark.once("torch")

CONTENT = "".join(
    f"u{user} {' '.join(f'i{(user + step) % 9}' for step in range(6))}\n"
    for user in range(12)
).encode()
PROCESS = "recsys.api.reproduce.CommandProcess"
KINDS: dict[str, Any] = {"baseline": BaselineConfig, "train": TrainConfig}
SMALL = Benchmark(
    title="Small",
    protocol="The last item.",
    about="Few users.",
    data_set="sequences",
    files={
        "file": ShelfFile(("log.txt",), hashlib.sha256(CONTENT).hexdigest())
    },
    options={"length": 4},
    k=3,
    settings=(
        Setting("popular", "baseline", {"model": "popular", "refit": True}),
        Setting(
            "ease",
            "baseline",
            {"model": "ease", "options": {"lambda": 1}, "exclude_seen": False},
            seeds=2,
        ),
    ),
    published=(Published("Model", (0.5, 0.25), "Somebody 2020"),),
)


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(BENCHMARKS, "small", SMALL)
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "log.txt.gz").write_bytes(gzip.compress(CONTENT))
    return folder


@pytest.mark.slow
def test_rows_and_seeds_that_are_missing_are_measured(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    first = recsys.reproduce("small", raw, out, rows=["ease"], seeds=1)
    assert first[["row", "seed"]].to_numpy().tolist() == [["ease", 0]]
    # After a step of 1 in the same order, EASE knows what comes next.
    metrics = recsys.evaluate(out / "runs/ease/seed-0", out / "data")
    retrieval = metrics["retrieval"]
    for name in ("recall@3", "ndcg@3"):
        assert first[name].tolist() == [retrieval[name]]
    assert (first["cpu_minutes"] > 0).all()
    ended = (out / "runs/ease/seed-0.json").stat().st_mtime_ns
    # What was interrupted is measured anew.
    (out / "runs/popular/seed-0").mkdir(parents=True)
    (out / "runs/popular/seed-0/config.json").write_text("{}")
    monkeypatch.setattr(PROCESS, CommandsHere)
    whole = recsys.reproduce("small", raw, out)
    pairs = [["popular", 0], ["ease", 0], ["ease", 1]]
    assert whole[["row", "seed"]].to_numpy().tolist() == pairs
    assert (out / "runs/ease/seed-0.json").stat().st_mtime_ns == ended
    written = pd.read_csv(out / "results.csv")
    pd.testing.assert_frame_equal(written, whole, check_exact=False)


@pytest.mark.slow
def test_a_row_is_measured_on_several_draws_of_the_splits(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        f"{user}\t{item}\t{1 + item % 5}\n"
        for user in range(1, 13)
        for item in range(user % 3, 20)
    ]
    content = "".join(lines).encode()
    (raw / "u.data").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    drawn = replace(
        SMALL,
        data_set="ratings",
        files={"file": ShelfFile(("u.data",), digest)},
        options={"test_share": 0.3},
        settings=SMALL.settings[:1],
        draws=2,
    )
    monkeypatch.setitem(BENCHMARKS, "drawn", drawn)
    monkeypatch.setattr(PROCESS, CommandsHere)
    out = tmp_path / "out"
    found = recsys.reproduce("drawn", raw, out)
    assert found["seed"].tolist() == [0, 1]
    tests = [
        recsys.data.load(out / f"data-seed-{seed}").split("test")
        for seed in (0, 1)
    ]
    assert not tests[0].equals(tests[1])
    for seed in (0, 1):
        run = out / "runs" / "popular" / f"seed-{seed}"
        again = recsys.evaluate(run, out / f"data-seed-{seed}")["retrieval"]
        assert again["recall@3"] == found["recall@3"][seed]


def test_another_file_is_refused(raw: Path, tmp_path: Path) -> None:
    (raw / "log.txt.gz").unlink()
    with pytest.raises(DataError, match=r"one of the files \['log.txt', "):
        recsys.reproduce("small", raw, tmp_path / "out")
    (raw / "log.txt").write_bytes(CONTENT + b"u1 i1\n")
    with pytest.raises(DataError, match=r"log.txt: expected the published"):
        recsys.reproduce("small", raw, tmp_path / "out")


def test_a_file_is_checked_in_its_archive(tmp_path: Path) -> None:
    digest = hashlib.sha256(CONTENT).hexdigest()
    file = ShelfFile(("log/u.data",), digest, archive="log.zip")
    assert file.shown == "log/u.data in log.zip"
    with pytest.raises(DataError, match=r"log/u.data', 'log.zip'\)"):
        file.checked(tmp_path)
    for content, right in ((CONTENT, True), (CONTENT[1:], False)):
        with ZipFile(tmp_path / "log.zip", "w") as archive:
            archive.writestr("log/u.data", content)
        if right:
            assert file.checked(tmp_path) == "log/u.data"
    with pytest.raises(DataError, match=r"log.zip/log/u.data: .* published"):
        file.checked(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "smal"}, r"`name` must be among .*mean 'small'.*'smal'"),
        ({"rows": ["EASE"]}, r"`rows` must be among \['popular', 'ease'\]"),
        ({"seeds": 0}, "`seeds` must be"),
    ],
)
def test_wrong_arguments(
    raw: Path, tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    given = {"name": "small", "raw_dir": raw, "out": tmp_path / "o"}
    with pytest.raises(ValueError, match=message):
        recsys.reproduce(**(given | arguments))
    assert not (tmp_path / "o").exists()


def test_table() -> None:
    results = pd.DataFrame(
        {
            "row": ["ease", "ease", "popular"],
            "seed": [0, 1, 0],
            "recall@3": [0.6, 0.8, 0.1],
            "ndcg@3": [0.3, 0.5, 0.05],
            "cpu_minutes": [1.5, 2.0, 0.5],
            "device": ["cpu", "GPU", "cpu"],
        }
    )
    header, lines = shelf_table(SMALL, results)
    assert header[1:3] == ["recall@3", "ndcg@3"]
    assert lines == [
        ["popular (here)", "0.1000", "0.0500", "1", "0.5", ""],
        ["Model", "0.5000", "0.2500", "", "", "Somebody 2020"],
        [
            *("ease (here)", "0.7000 ± 0.1000", "0.4000 ± 0.1000"),
            *("2", "1.5", ""),
        ],
    ]


@pytest.mark.parametrize(
    ("devices", "minutes", "shown"),
    [
        (["cpu", "cpu"], [1.0, 2.0], "1.5"),
        (["cpu", "GPU"], [1.0, 0.1], "1.0"),
        (["GPU", "GPU"], [0.1, None], "accelerator"),
        (["cpu", "cpu"], [None, None], "not recorded"),
    ],
)
def test_minutes_are_of_cpus_alone(
    devices: list[str], minutes: list[float | None], shown: str
) -> None:
    results = pd.DataFrame(
        {
            "row": "ease",
            "recall@3": [0.6, 0.8],
            "ndcg@3": [0.3, 0.5],
            "cpu_minutes": minutes,
            "device": devices,
        }
    )
    header, (_, line) = shelf_table(SMALL, results)
    assert line[header.index("CPU minutes")] == shown


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_can_be_run(name: str) -> None:
    benchmark = BENCHMARKS[name]
    assert benchmark.data_set in DATA_SETS
    names = [setting.name for setting in benchmark.settings]
    assert len(set(names)) == len(names)
    simplest = {"retrieval": ["popular"], "tasks": ["bias", "linear"]}
    assert names[0] in simplest[benchmark.measured]
    for setting in benchmark.settings:
        kind = KINDS[setting.command]
        kind(data="d", out="o", metrics_k=benchmark.k, **setting.fields)
        assert set(setting.files) <= set(benchmark.optional)
        # What draws nothing is measured once.
        assert (setting.seeds == 1) == (setting.command == "baseline")
    assert set(benchmark.optional) <= set(benchmark.files)
    for published in benchmark.published:
        assert len(published.values) == len(benchmark.metrics)
        assert published.values[-1] is not None


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_commands_take_every_field(name: str) -> None:
    commands: Any = typer.main.get_command(app)
    for setting in BENCHMARKS[name].settings:
        fields: Any = {**setting.fields, "data": "d", "out": "o", "seed": 1}
        kind = KINDS[setting.command]
        words = command_words(setting.command, kind, fields)
        command = commands.commands[setting.command]
        context = command.make_context(words[0], words[1:])
        given = {
            name: str(value) if isinstance(value, Path) else value
            for name, value in context.params.items()
            if name in kind.__dataclass_fields__ and value not in (None, ())
        }
        if "gate_options" in fields:  # Texts, which a run gives their types.
            options = fields["gate_options"].items()
            fields["gate_options"] = {key: str(own) for key, own in options}
        assert kind(**given_fields(given)) == kind(**fields)


def test_the_page_is_what_was_measured() -> None:
    page = RESULTS.parents[2] / "docs" / "shelf.md"
    assert page.read_text(encoding="utf-8") == shelf_page(BENCHMARKS, RESULTS)
    measured = {file.stem for file in RESULTS.glob("*.csv")}
    assert measured <= set(BENCHMARKS)
