import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys import TrainConfig
from recsys.config.gate_names import GATES
from recsys.config.gate_names import GateChoice


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("comet", GateChoice("comet")),
        ("comet+", GateChoice("comet", searched=True)),
        ("comet++", GateChoice("comet+", searched=True)),
        ("+", GateChoice("", searched=True)),
        ("", GateChoice("")),
    ],
)
def test_a_mark_at_the_end_is_a_search(text: str, choice: GateChoice) -> None:
    assert GateChoice.parse(text) == choice


@given(st.text("a+-"))
def test_a_choice_is_written_as_it_was_read(text: str) -> None:
    assert str(GateChoice.parse(text)) == text


@pytest.mark.parametrize("searched", [False, True])
@pytest.mark.parametrize("name", GATES)
def test_a_configuration_has_the_choice_of_its_gate(
    name: str, searched: bool
) -> None:
    choice = GateChoice(name, searched)
    config = TrainConfig(data="synthetic", out="run", gate=str(choice))
    assert config.gate_choice == choice


@pytest.mark.parametrize("gate", ["comet++", "+", "comt+"])
def test_what_is_left_has_to_be_a_gate(gate: str) -> None:
    with pytest.raises(ValueError, match="`gate` must be one of softmax"):
        TrainConfig(data="synthetic", out="run", gate=gate)
