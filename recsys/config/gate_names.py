"""The gates by the name that a command line gives them."""

from dataclasses import dataclass
from typing import NamedTuple

from pydantic_core import PydanticCustomError

from recsys.errors.shown import did_you_mean

SEARCH_MARK = "+"


@dataclass(frozen=True)
class GateChoice:
    """The parts of a run's `gate`: a gate, and a search before it.

    Attributes:
        name: Name of the gate, one of `recsys.config.gate_names.GATES`.
        searched: Whether permutation local search precedes it, the `+` of
            `comet+`.

    Example:
    >>> GateChoice.parse("comet+")
    GateChoice(name='comet', searched=True)
    >>> str(GateChoice("comet", searched=True)), str(GateChoice("top-k"))
    ('comet+', 'top-k')
    """

    name: str
    searched: bool = False

    @classmethod
    def parse(cls, text: str) -> "GateChoice":
        """Reads the field of a run; whether there is such a gate is not asked.

        Args:
            text: Name of a gate, with or without a `+`.
        """
        return cls(text.removesuffix(SEARCH_MARK), text.endswith(SEARCH_MARK))

    def __str__(self) -> str:
        return self.name + SEARCH_MARK * self.searched


class GateName(NamedTuple):
    """A gate by name, without importing Keras.

    Attributes:
        layer: Name of the class in `keras_moe.layers`.
        has_k: Whether `k` is an argument of it.
        by_position: Whether it weighs each position of a sequence by that
            position's features alone, as the gate of a causal tower has to.
        inner: For a gate around another, the name of that one unless the option
            `inner` names one.
    """

    layer: str
    has_k: bool
    by_position: bool = True
    inner: str | None = None


GATES: dict[str, GateName] = {
    "softmax": GateName("SoftmaxGate", has_k=False),
    "top-k": GateName("TopKGate", has_k=True),
    "v-moe": GateName("VMoEGate", has_k=True),
    "switch": GateName("SwitchGate", has_k=True),
    "x-moe": GateName("XMoEGate", has_k=True),
    "hash": GateName("HashGate", has_k=False, by_position=False),
    "gumbel-softmax": GateName("GumbelSoftmaxGate", has_k=False),
    "dselect-k": GateName("DSelectKGate", has_k=True),
    "comet": GateName("COMETGate", has_k=True),
    "moesart": GateName("MOESARTGate", has_k=True),
    "expert-choice": GateName(
        "ExpertChoiceGate", has_k=False, by_position=False
    ),
    "remoe": GateName("ReMoEGate", has_k=True),
    "budget": GateName("BudgetGate", has_k=True, inner="softmax"),
}

# Those that a gate around another can have: they see features, and weigh each
# example.
INNER_GATES = tuple(
    name
    for name, gate in GATES.items()
    if gate.inner is None and name not in ("hash", "gumbel-softmax")
)


def expected_gates(name: str) -> str:
    """Returns what is expected instead of a name that no gate has."""
    nearest = did_you_mean(GateChoice.parse(name).name, GATES)
    return (
        f"one of {', '.join(GATES)}, with a {SEARCH_MARK} after it for "
        f"permutation local search{nearest}"
    )


def known_gate(name: str) -> str:
    """Returns the name of a gate, for a field that pydantic checks."""
    if GateChoice.parse(name).name not in GATES:
        expected = {"expected": expected_gates(name)}
        raise PydanticCustomError("gate", "{expected}", expected)
    return name


def check_k(name: str, k: int, num_experts: int) -> None:
    """Raises ValueError for more experts per example than a gate can have.

    Args:
        name: Name of the gate.
        k: Experts per example, which does not matter to a gate without `k`.
        num_experts: The most experts that the gate can have.
    """
    if GATES[GateChoice.parse(name).name].has_k and k > num_experts:
        raise ValueError(
            f"`k` must be at most {num_experts}, the number of experts. "
            f"Received: k={k}, gate={name!r}"
        )
