import json
from pathlib import Path
from typing import Any

import pytest

from recsys.errors import FileError
from recsys.tuning.oracles import TUNERS
from recsys.tuning.oracles import ResumableOracle
from recsys.tuning.oracles import create_oracle
from recsys.tuning.parse_space import parse_space
from recsys.tuning.space import Space

pytestmark = pytest.mark.once("torch")

SPACE = parse_space(
    {"learning_rate": {"min": 1e-4, "max": 1e-2, "sampling": "log"}}, {}
)
MIXED = parse_space(
    {"architecture": ["mmoe", "ple"], "epochs": {"min": 1, "max": 9}}, {}
)
TRIALS = 7

Drawn = list[dict[str, Any]]


def make(
    folder: Path,
    tuner: str,
    seed: int = 0,
    trials: int = TRIALS,
    space: Space = SPACE,
) -> ResumableOracle:
    oracle = create_oracle(tuner, space, trials, epochs=9, seed=seed)
    oracle._set_project_dir(str(folder), "tuner")
    return oracle


def draw(oracle: ResumableOracle, stop_before_end: int | None = None) -> Drawn:
    """Runs trials; every third one fails; returns what was drawn for each.

    Args:
        oracle: Draws the trials.
        stop_before_end: Trial that is left running.
    """
    drawn = []
    while True:
        trial = oracle.create_trial("worker")
        if trial.status == "STOPPED":
            return drawn
        drawn.append({"trial": trial.trial_id, **trial.hyperparameters.values})
        number = int(trial.trial_id)
        if number == stop_before_end:
            return drawn
        if number % 3 == 2:
            trial.status = "FAILED"
        else:
            loss = abs(trial.hyperparameters["learning_rate"] - 1e-3)
            oracle.update_trial(trial.trial_id, {"val_loss": loss})
            trial.status = "COMPLETED"
        oracle.end_trial(trial)


@pytest.mark.slow
@pytest.mark.parametrize("tuner", TUNERS)
def test_interrupted_search_goes_on_as_an_uninterrupted_one(
    tuner: str, tmp_path: Path
) -> None:
    expected = draw(make(tmp_path / "whole", tuner))
    assert [trial["trial"] for trial in expected] == list("0123456")
    first = draw(make(tmp_path / "parts", tuner), stop_before_end=2)
    again = make(tmp_path / "parts", tuner)
    again.reload()
    second = draw(again, stop_before_end=5)
    last = make(tmp_path / "parts", tuner)
    last.reload()
    failed = [loss is None for loss in last.losses]
    assert failed == [False, False, True, False, False]
    third = draw(last)
    # The trial that was left running is run again.
    assert first[-1] == second[0]
    assert second[-1] == third[0]
    assert first[:-1] + second[:-1] + third == expected


@pytest.mark.parametrize("tuner", TUNERS)
def test_nothing_is_left_of_a_search_that_has_ended(
    tuner: str, tmp_path: Path
) -> None:
    ended = draw(make(tmp_path, tuner))
    again = make(tmp_path, tuner)
    again.reload()
    assert len(again.losses) == len(ended)
    assert draw(again) == []


def test_failures_do_not_end_a_search(tmp_path: Path) -> None:
    oracle = make(tmp_path, "random")
    for _ in range(TRIALS):
        trial = oracle.create_trial("worker")
        assert trial.status == "RUNNING"
        trial.status = "FAILED"
        oracle.end_trial(trial)
    assert oracle.create_trial("worker").status == "STOPPED"
    assert oracle.losses == [None] * TRIALS


def test_each_end_is_told(tmp_path: Path) -> None:
    oracle = make(tmp_path, "random")
    told = []
    oracle.on_trial_end = lambda trial, loss: told.append((trial, loss))
    drawn = draw(oracle)
    assert told == [
        (
            trial["trial"],
            None
            if int(trial["trial"]) % 3 == 2
            else abs(trial["learning_rate"] - 1e-3),
        )
        for trial in drawn
    ]


def test_seed_decides_what_is_drawn(tmp_path: Path) -> None:
    drawn = {
        name: [
            trial["learning_rate"]
            for trial in draw(make(tmp_path / name, "random", seed))
        ]
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    }
    assert drawn["a"] == drawn["b"]
    assert not set(drawn["a"]) & set(drawn["c"])


def test_hyperband_raises_the_epochs_of_the_best(tmp_path: Path) -> None:
    drawn = draw(make(tmp_path, "hyperband", trials=40))
    assert {trial["tuner/epochs"] for trial in drawn} == {1, 3, 9}
    by_name = {trial["trial"]: trial for trial in drawn}
    promoted = [trial for trial in drawn if "tuner/trial_id" in trial]
    assert promoted
    for trial in promoted:
        before = by_name[trial["tuner/trial_id"]]
        assert trial["learning_rate"] == before["learning_rate"]
        assert trial["tuner/epochs"] == 3 * before["tuner/epochs"]


def test_unknown_tuner() -> None:
    with pytest.raises(ValueError, match="`tuner` must be one of random, bay"):
        create_oracle("grid", SPACE, 1, 1, 0)


@pytest.mark.parametrize("tuner", TUNERS)
@pytest.mark.parametrize(
    "change",
    [
        lambda state: {},
        lambda state: [],
        lambda state: state | {"trials": []},
        lambda state: state | {"trials": [{"trial_id": "0"}]},
        lambda state: state | {"end_order": 5},
        lambda state: state | {"end_order": ["9"]},
        lambda state: state | {"seed_state": None},
        lambda state: state | {"hyperparameters": {}},
        lambda state: state | {"hyperparameters": {"space": [], "values": {}}},
        lambda state: state | {"display": {}},
        lambda state: {name: state[name] for name in list(state)[:-1]},
    ],
)
def test_broken_state_is_one_error_with_the_file(
    change: Any, tuner: str, tmp_path: Path
) -> None:
    draw(make(tmp_path, tuner), stop_before_end=2)
    file = tmp_path / "tuner" / "oracle.json"
    file.write_text(json.dumps(change(json.loads(file.read_text()))))
    with pytest.raises(FileError, match=f"^{file}"):
        make(tmp_path, tuner).reload()


def saved(folder: Path) -> tuple[Path, dict[str, Any]]:
    """What a random search in two dimensions leaves after a trial."""
    oracle = make(folder, "random", space=MIXED)
    oracle.create_trial("worker")
    oracle.save()
    file = folder / "tuner" / "oracle.json"
    return file, json.loads(file.read_text())


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("architecture", '"dense"', 'to be one of "mmoe", "ple"'),
        ("architecture", "mmoe", "to be one of"),
        ("epochs", 10, "to be an integer from 1 to 9. Received: 10"),
        ("epochs", 1.5, "to be an integer from 1 to 9. Received: 1.5"),
        ("epochs", True, "to be an integer from 1 to 9. Received: True"),
        ("epochs", "3", "to be an integer from 1 to 9. Received: '3'"),
        ("epochs", float("nan"), "to be an integer from 1 to 9"),
    ],
)
def test_what_was_drawn_is_in_the_space(
    name: str, value: Any, expected: str, tmp_path: Path
) -> None:
    file, state = saved(tmp_path)
    state["trials"][0]["hyperparameters"]["values"][name] = value
    file.write_text(json.dumps(state))
    with pytest.raises(FileError) as raised:
        make(tmp_path, "random", space=MIXED).reload()
    assert str(raised.value).startswith(str(file))
    assert expected in str(raised.value)


def test_each_dimension_has_been_drawn(tmp_path: Path) -> None:
    file, state = saved(tmp_path)
    del state["trials"][0]["hyperparameters"]["values"]["architecture"]
    file.write_text(json.dumps(state))
    with pytest.raises(FileError, match="trial '0': expected a value of arch"):
        make(tmp_path, "random", space=MIXED).reload()


def test_a_trial_may_have_drawn_nothing_yet(tmp_path: Path) -> None:
    file, state = saved(tmp_path)
    state["trials"][0]["hyperparameters"]["values"] = {}
    file.write_text(json.dumps(state))
    make(tmp_path, "random", space=MIXED).reload()


@pytest.mark.parametrize(
    ("number", "change", "expected"),
    [
        (
            0,
            {"values": ['"mmoe"', '"x"']},
            "expected architecture to be",
        ),
        (1, {"max_value": 12}, "expected epochs to be an integer from 1 to 9"),
        (1, {"name": "epoch"}, "expected the hyperparameters"),
    ],
)
def test_what_will_be_drawn_is_in_the_space(
    number: int, change: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    file, state = saved(tmp_path)
    state["hyperparameters"]["space"][number]["config"] |= change
    file.write_text(json.dumps(state))
    with pytest.raises(FileError, match=f"^{file}: {expected}"):
        make(tmp_path, "random", space=MIXED).reload()
