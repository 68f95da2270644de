"""How many examples a property of layers and functions is tried on.

Each shape is traced, and often compiled, anew on JAX and TensorFlow: `make
test` draws few there, and all of them on PyTorch; `make test-all` draws all.
"""

from hypothesis import settings

FEW = 5


def examples(most: int) -> settings:
    """Settings of a test that draws so many examples where there are enough.

    `tests/conftest.py` decides how many that are, by a profile.
    """
    return settings(max_examples=min(most, settings().max_examples))


def draws_few() -> bool:
    """Whether few are enough, as in `make test` on what compiles."""
    return settings().max_examples <= FEW
