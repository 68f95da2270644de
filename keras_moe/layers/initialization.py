"""Initialisers that never draw the same values twice.

One Keras 3 initialiser returns the same values at every call, so a shared one
would make experts or trees identical. Everything here is derived anew for
each weight and each expert.
"""

from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import keras
import numpy as np

Initializer = Callable[..., Any]


# How often each initialiser has served as a weight's, by the weight's index.
_uses: WeakKeyDictionary[Any, Counter[int]] = WeakKeyDictionary()


def independent(
    initializer: Initializer, index: int, seed: int | None = None
) -> Initializer:
    """An initialiser of the same distribution with a draw of its own.

    Args:
        initializer: A Keras initialiser. One without a `seed` (such as zeros,
            or a plain function) is returned as it is. Each further use of the
            same instance is another draw, so that layers may share it.
        index: What the draw is for; draws with different indices differ.
        seed: Used when the initialiser has no seed of its own. When both are
            `None` the draw comes from Keras's global seed.

    Returns:
        The initialiser to use for weight `index`.
    """
    if not isinstance(initializer, keras.initializers.Initializer):
        return initializer
    uses = _uses.setdefault(initializer, Counter())
    uses[index] += 1
    return _reseeded(initializer, seed, index, uses[index])


def derived_seed(seed: int, *numbers: int) -> int:
    """A seed that differs for every `(seed, *numbers)`."""
    sequence = np.random.SeedSequence([seed & 0xFFFFFFFF, *numbers])
    return int(sequence.generate_state(1)[0] >> 1)


def _reseeded(
    initializer: Initializer, seed: int | None, *numbers: int
) -> Initializer:
    """Derives the initialiser's seed, or `seed` where it has none."""
    if not isinstance(initializer, keras.initializers.Initializer):
        return initializer
    config = initializer.get_config()
    if "seed" not in config:
        return initializer
    own = config["seed"]
    if own is not None and not isinstance(own, int):
        return initializer  # A SeedGenerator: it advances at every call.
    base = seed if own is None else own
    config["seed"] = None if base is None else derived_seed(base, *numbers)
    return initializer.__class__.from_config(config)


class PerExpert(keras.initializers.Initializer):
    """Draws each expert's slice with its own fans and its own seed.

    Args:
        initializer: The initialiser of one expert's weight.
        index: What the weight is; weights with different indices differ.
        seed: Used when `initializer` has no seed of its own.
    """

    def __init__(
        self, initializer: Initializer, index: int, seed: int | None = None
    ) -> None:
        self.initializer = independent(initializer, index, seed)

    def __call__(self, shape: Sequence[int], dtype: Any = None) -> Any:
        """Returns a tensor `(n, ...)` of `n` independent draws."""
        num_experts, *expert_shape = shape
        return keras.ops.stack(
            [
                _reseeded(self.initializer, None, expert)(
                    tuple(expert_shape), dtype=dtype
                )
                for expert in range(num_experts)
            ]
        )
