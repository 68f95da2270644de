from dataclasses import dataclass

from recsys.files.json_files import JsonObject


@dataclass(frozen=True)
class Published:
    """A paper's settings for one data set.

    Attributes:
        gates: Names of the gates that are compared on it.
        training: What every gate is tuned over, or trained with.
    """

    gates: tuple[str, ...]
    training: JsonObject

    @property
    def batch_size(self) -> int:
        """Examples in a training step, which are tuned nowhere."""
        return int(self.training["batch_size"][0])

    @property
    def num_experts(self) -> int:
        """The number of experts, which is tuned nowhere."""
        return int(self.training["num_experts"][0])


def adam(
    learning_rates: tuple[float, float],
    batch_size: int,
    epochs: int,
    num_experts: int,
    k: int,
) -> JsonObject:
    """The fields that a gate is tuned over with Adam, or trained with.

    Learning rates are uniform in the logarithm between two bounds. All but
    one of the published tables stop after 25 epochs without a better loss.

    Example:
    >>> adam((5e-5, 5e-4), 512, 100, num_experts=16, k=2)["learning_rate"]
    {'min': 5e-05, 'max': 0.0005, 'sampling': 'log'}
    """
    least, most = learning_rates
    return {
        "learning_rate": {"min": least, "max": most, "sampling": "log"},
        "batch_size": [batch_size],
        "epochs": [epochs],
        "patience": [25],
        "num_experts": [num_experts],
        "k": [k],
    }


# Tables of ids: the published models have an embedding for each id of the data
# set and none for unknown ones, and the sizes of MovieLens where none are said.
KNOWN_IDS: JsonObject = {"preset": ["movielens"], "unknown_rate": [0.0]}

# Books and Jester: widths of the embeddings, the experts and the heads (COMET
# S1.2, "Books/Jester"; MOESART S6.2, "Books").
NARROW: JsonObject = {
    **KNOWN_IDS,
    "embedding_dim": [64],
    "expert_units": [[128]],
    "head_units": [[256]],
}
