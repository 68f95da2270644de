"""How much of a property of layers and functions is tried.

Each shape is traced, and often compiled, anew on JAX and TensorFlow: `make
test` draws few examples there, and all of them on PyTorch; `make test-all`
draws all. What PyTorch does not run takes Hypothesis's own settings.
"""

from hypothesis import settings

FEW = 3


class Drawn:
    """What `tests/conftest.py` decides for a run."""

    few = False


def examples(most: int) -> settings:
    """Settings of a test that draws so many, or few where they will do."""
    return settings(max_examples=min(most, FEW) if Drawn.few else most)
