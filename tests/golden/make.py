"""Makes the golden model: run it only when a change of format is meant.

KERAS_BACKEND=tensorflow python -m tests.golden.make
"""

from pathlib import Path

import keras
import numpy as np

from keras_moe.layers import COMETGate
from keras_moe.layers import DSelectKGate
from keras_moe.layers import HashGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate

FOLDER = Path(__file__).parent
MODEL = FOLDER / "model.keras"
PREDICTIONS = FOLDER / "predictions.npz"


def make_model() -> keras.Model:
    """A model with every gate, both kinds of experts and both mixtures."""
    features = keras.Input((6,), name="features")
    ids = keras.Input((), dtype="int32", name="ids")
    gates = {
        "softmax": SoftmaxGate(5, static=True),
        "top_k": TopKGate(5, k=2),
        "hash": HashGate(5, num_buckets=20, balanced=True),
        "dselect_k": DSelectKGate(5, k=2),
        "comet": COMETGate(5, k=2),
    }
    gate_inputs = {task: ids if task == "hash" else features for task in gates}
    towers = MMoE(gates, MLPExperts(5, [4, 3]))(features, gate_inputs)
    inner = keras.layers.Concatenate()(list(towers.values()))
    experts = [keras.layers.Dense(2, activation="relu") for _ in range(4)]
    outputs = MoE(TopKGate(4, k=1), experts)(inner)
    return keras.Model({"features": features, "ids": ids}, outputs)


def main() -> None:
    keras.utils.set_random_seed(0)
    model = make_model()
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:  # No zeros, no ones.
        weight.assign(rng.normal(size=weight.shape))
    inputs = {
        "features": rng.normal(size=(8, 6)).astype("float32"),
        "ids": np.arange(8, dtype="int32"),
    }
    model.save(MODEL)
    arrays = {"outputs": model.predict(inputs, verbose=0), **inputs}
    np.savez(PREDICTIONS, allow_pickle=False, **arrays)


if __name__ == "__main__":
    main()
