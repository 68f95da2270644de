"""A gate that is added as CONTRIBUTING.md says, and nothing else."""

import re
import types
from collections.abc import Iterator
from pathlib import Path

import keras
import pytest

import recsys
from keras_moe import layers
from recsys.config.gate_names import GATES
from recsys.config.gate_names import GateName
from recsys.measuring.curves import read_history
from recsys.runs.run import Run

pytestmark = [pytest.mark.once("torch"), pytest.mark.slow]

RECIPE = Path(__file__).parents[3] / "CONTRIBUTING.md"


@pytest.fixture
def my_gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[layers.Gate]]:
    """The class of the recipe, with its export and its registry line."""
    _, _, recipe = RECIPE.read_text().partition("## How to add a gate")
    recipe, _, _ = recipe.partition("\n## ")
    (block,) = re.findall(r"   ```python\n(.*?)   ```", recipe, re.DOTALL)
    module = types.ModuleType("my_gate")
    exec(re.sub("^   ", "", block, flags=re.MULTILINE), vars(module))
    monkeypatch.setattr(layers, "MyGate", module.MyGate, raising=False)
    monkeypatch.setitem(GATES, "my-gate", GateName("MyGate", has_k=True))
    yield module.MyGate
    del keras.saving.get_custom_objects()["keras_moe>MyGate"]


@pytest.mark.parametrize("gate", ["my-gate", "my-gate+"])
def test_it_is_trained_and_read_back(
    gate: str, my_gate: type[layers.Gate], data: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    recsys.train(
        {
            "data": str(data),
            "out": str(folder),
            "gate": gate,
            "num_experts": 4,
            "k": 3,
            "gate_options": {"z_loss_weight": "0.01"},
            "embedding_dim": 2,
            "expert_units": [3],
            "head_units": [2],
            "epochs": 2,
            "search_epochs": 1,
        }
    )
    assert Run(folder).read_config().gate_options == {"z_loss_weight": 0.01}
    experts = read_history(folder / "history.csv")["experts_per_example"]
    assert experts.iloc[-1] == 3.0
    gates = recsys.load_model(folder).mixture.gates.values()
    inner = [
        gate.gate if isinstance(gate, layers.PermutedGate) else gate
        for gate in gates
    ]
    assert {type(gate) for gate in inner} == {my_gate}


def test_it_is_refused_as_every_gate_is(my_gate: type[layers.Gate]) -> None:
    with pytest.raises(ValueError, match="`k` must be at most 4"):
        recsys.TrainConfig("d", "o", gate="my-gate", num_experts=4, k=5)
    with pytest.raises(ValueError, match="gate 'my-gate' must be among"):
        recsys.train(
            {
                "data": "synthetic",
                "out": "run",
                "gate": "my-gate",
                "gate_options": {"gamma": 1.0},
            }
        )
