"""The decoders that the study of expert choice compares."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import keras_hub

from keras_moe.layers import ExpertChoiceGate
from keras_moe.layers import Gate
from keras_moe.layers import HashGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import SwitchGate
from keras_moe.layers import TopKGate
from recsys.errors.reading import reading
from studies.language_model import language_model
from studies.routed_backbone import routed_backbone
from studies.runs import Settings

DENSE = "dense"
TOP_2 = "top-2"
SWITCH = "switch"
EXPERT_CHOICE = "expert choice"
HASH = "hash"
# Experts a token at most.
CAPS = {"capped at 3": 3, "capped at 2": 2}

# What GShard and Switch Transformers weigh their balance losses with.
BALANCE = 0.01


@dataclass(frozen=True)
class Sizes:
    """Of model, training and evaluation.

    Attributes:
        vocabulary_size: Word pieces; 0 for bytes.
        length: Tokens of a sequence.
        num_layers: Every second has a mixture.
        num_heads: Heads of attention.
        hidden_dim: Width of the features.
        intermediate_dim: Width of a dense feed-forward network.
        num_experts: Experts of a mixture that gives a token two.
        batch_size: Sequences of a step.
        steps: Steps of a training.
        evaluate_every: Steps between two evaluations.
        evaluation_rows: Sequences of an evaluation, spread over the split.
        learning_rate: Adam's.
    """

    vocabulary_size: int = 1000
    length: int = 64
    num_layers: int = 4
    num_heads: int = 4
    hidden_dim: int = 64
    intermediate_dim: int = 256
    num_experts: int = 16
    batch_size: int = 16
    steps: int = 300
    evaluate_every: int = 50
    evaluation_rows: int = 256
    learning_rate: float = 3e-3


SMOKE = Sizes(
    vocabulary_size=0,
    length=8,
    num_layers=2,
    num_heads=2,
    hidden_dim=8,
    intermediate_dim=16,
    num_experts=4,
    batch_size=4,
    steps=4,
    evaluate_every=2,
    evaluation_rows=8,
)


def plan(study: str, sizes: Sizes) -> list[Settings]:
    """Lists the models of a study, without seeds."""
    n, units = sizes.num_experts, sizes.intermediate_dim // 2
    dense = _model(DENSE, None, None)
    choice = _model(EXPERT_CHOICE, n, units, capacity=2.0)
    two, one = _model(TOP_2, n, units), _model(SWITCH, n // 2, 2 * units)
    if study == "gates":
        caps = [{**choice, "model": name} for name in CAPS]
        hashed = _model(HASH, n // 2, 2 * units)
        return [dense, two, one, choice, *caps, hashed]
    if study == "capacity":
        factors = [{**choice, "capacity": factor} for factor in (0.5, 1.0)]
        return [*factors, choice, _model(SWITCH, n, units), two]
    counts = [count for count in (4, 8, 16, 32, 64) if count <= 4 * n]
    return [
        {**model, "experts": count}
        for count in counts
        for model in (choice, two)
    ]


def _model(
    name: str,
    experts: int | None,
    units: int | None,
    capacity: float | None = None,
) -> dict[str, str | int | float | None]:
    return {
        "model": name,
        "experts": experts,
        "units": units,
        "capacity": capacity,
    }


def create_gate(model: Settings, inference: str) -> Gate:
    """Makes the gate of one mixture.

    Args:
        model: An entry of `plan` that is not dense.
        inference: Of expert choice, `"threshold"` or `"batch"`.
    """
    n: Any = model["experts"]
    if model["model"] == TOP_2:
        return TopKGate(n, k=2, load_balance_loss_weight=BALANCE)
    if model["model"] == SWITCH:
        return SwitchGate(n, load_balance_loss_weight=BALANCE)
    if model["model"] == HASH:
        # A bucket for each expert: the id modulo n, up to their order.
        return HashGate(n, num_buckets=n, balanced=True)
    capacity: Any = model["capacity"]
    cap = CAPS.get(str(model["model"]))
    return ExpertChoiceGate(
        n, capacity, max_experts_per_token=cap, inference=inference
    )


def create_model(
    model: Settings, backbone: keras_hub.models.Backbone, inference: str
) -> keras.Model:
    """Makes a compiled language model; see `create_gate` for arguments."""
    features = backbone
    experts: Any = model["experts"]
    units: Any = model["units"]
    if experts is not None:
        features = routed_backbone(
            backbone,
            lambda: MoE(
                create_gate(model, inference),
                MLPExperts(
                    experts,
                    [units, backbone.hidden_dim],
                    activation=["gelu", None],
                    # As GPT-2's.
                    kernel_initializer=keras.initializers.RandomNormal(
                        stddev=0.02
                    ),
                ),
            ),
        )
    return language_model(backbone, features)


def load_preset(folder: Path) -> keras_hub.models.Backbone:
    """Loads a GPT-2 backbone from a folder that keras-hub has saved.

    Raises:
        FileNotFoundError: There is no such folder.
        FileError: It holds no such backbone.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: expected the folder of a preset")
    with reading(folder, "a GPT-2 backbone saved by keras-hub"):
        return keras_hub.models.GPT2Backbone.from_preset(str(folder))
