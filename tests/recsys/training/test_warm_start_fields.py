import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.errors import RunError
from recsys.runs.run import Run
from recsys.training.warm_start_fields import FIXED
from recsys.training.warm_start_fields import check_fixed
from recsys.training.warm_start_fields import with_fields_of_start

pytestmark = pytest.mark.once("torch")

# Resolved, as what a run records is.
CONFIG = ResolvedConfig.of(
    TrainConfig(
        "day1", "first", gate="top-k", table_optimizer="adam", epochs=7, seed=3
    )
)


@pytest.fixture
def first(tmp_path: Path) -> str:
    """A run that has gone on from another one itself."""
    run = Run(tmp_path / "first")
    run.folder.mkdir()
    run.write_config(replace(CONFIG, warm_start="day0"))
    return str(run.folder)


def test_what_is_not_given_is_that_of_the_run(first: str) -> None:
    given = {"data": "day2", "out": "second", "warm_start": first, "epochs": 2}
    fields = with_fields_of_start(given)
    config = ResolvedConfig.from_mapping(fields)
    assert config == replace(
        CONFIG, data="day2", out="second", warm_start=first, epochs=2
    )


def test_its_data_are_not_taken_over(first: str) -> None:
    fields = with_fields_of_start({"out": "second", "warm_start": first})
    with pytest.raises(ValueError, match="`data` must be given"):
        TrainConfig.from_mapping(fields)


@pytest.mark.parametrize("given", [{}, {"warm_start": None}, {"out": "x"}])
def test_without_a_start_nothing_is_added(given: dict[str, Any]) -> None:
    assert with_fields_of_start(given) == given


def test_a_start_that_is_no_folder() -> None:
    fields = with_fields_of_start(
        {"data": "day2", "out": "second", "warm_start": 7}
    )
    with pytest.raises(TypeError, match=r"`warm_start` must be a string.*7"):
        TrainConfig.from_mapping(fields)


def test_a_run_that_has_begun_needs_no_other(tmp_path: Path) -> None:
    run = Run(tmp_path / "second")
    run.folder.mkdir()
    given = {"data": "2", "out": str(run.folder), "warm_start": "gone"}
    run.write_config(replace(CONFIG, warm_start="gone"))
    fields = with_fields_of_start(given, resume=True)
    assert (fields["gate"], fields["data"]) == ("top-k", "2")
    with pytest.raises(RunError, match=r"^gone: expected the folder of a run"):
        with_fields_of_start(given)


def test_an_earlier_version_did_not_know_the_field(first: str) -> None:
    file = Run(first).config
    fields = json.loads(file.read_text())
    del fields["warm_start"]
    file.write_text(json.dumps(fields))
    assert Run(first).read_config().warm_start is None


def test_the_model_is_that_of_the_run() -> None:
    check_fixed(replace(CONFIG, epochs=1, learning_rate=1.0), CONFIG, "first")
    with pytest.raises(ValueError, match="Received") as caught:
        check_fixed(replace(CONFIG, embedding_dim=4), CONFIG, "first")
    assert str(caught.value) == (
        "`embedding_dim` must be that of the run first, None, to go on from "
        "it. Received: embedding_dim=4"
    )


def test_what_is_fixed_are_fields() -> None:
    assert set(FIXED) <= CONFIG.to_mapping().keys()
