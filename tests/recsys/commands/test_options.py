import pytest

from recsys.cli import run
from recsys.commands.options import given_fields
from recsys.commands.options import named_values
from recsys.errors.arguments import Repeated
from tests.recsys.test_help import COMMANDS


@pytest.mark.parametrize("name", ["task_weights", "gate_options"])
def test_a_name_is_given_once(name: str) -> None:
    pairs = ["a=1", "b=2", "a=3"]
    with pytest.raises(ValueError, match=f"^`{name}` must be given once") as c:
        given_fields({name: pairs})
    kind = float if name == "task_weights" else str
    assert str(c.value).endswith(f"Received: a={kind(1)} and a={kind(3)}")


def test_values_of_a_name_are_kept_in_order() -> None:
    values = named_values("option", ["a=1", "b=2", "a=3,4"], repeats=True)
    assert values == {"a": ("1", "3,4"), "b": "2"}
    assert isinstance(values["a"], Repeated)


ONCE = {
    "calibrate": "--run",
    "rerun": "--sweep",
    "explain": "--run",
    "recommend": "--run",
    "serve": "--model",
}
"""An option of each command that has no `--out`, or one of another type."""


# `info` has no options.
@pytest.mark.parametrize("command", [c for c in COMMANDS if c != "info"])
def test_an_option_that_is_no_list_is_given_once(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = ONCE.get(command, "--out")
    assert run([command, name, "a", name, "b"]) == 2
    assert capsys.readouterr().err == (
        f"error: `{name}` must be given once. Received: 2 times\n"
    )


def test_a_flag_is_given_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "--resume", "--resume"]) == 2
    assert "`--resume` must be given once" in capsys.readouterr().err


def test_options_that_are_lists_may_be_repeated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--expert-units", "8", "--expert-units", "4"]
    assert run(["train", *words, "--out", "x"]) == 2
    assert "`data` must be given" in capsys.readouterr().err
