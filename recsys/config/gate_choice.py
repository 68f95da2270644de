from dataclasses import dataclass

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
