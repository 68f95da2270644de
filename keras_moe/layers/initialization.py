"""Initializers that never draw the same values twice, and can be repeated.

One Keras 3 initializer returns the same values at every call, so a shared one
would make experts or trees identical. Here each weight and each expert has a
seed of its own, which is derived from what stays the same when a model is built
once more: the initializer's seed, the layer's, the weight's index in the layer
and the layer's place among those that a mixture builds. How often the instance
was used before does not count: two mixtures that share a seeded one start alike
unless their gates and experts have seeds that differ.
"""

from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import keras
import numpy as np

from keras_moe.types import DTypeLike
from keras_moe.types import Tensor

Initializer = Callable[..., Tensor]

# The layers that stand alone, by the seeded initializers that they share.
_alone: WeakKeyDictionary[keras.initializers.Initializer, list[str]] = (
    WeakKeyDictionary()
)

# Keep apart what a seed is derived from. Not 0: trailing zeros change no seed.
_ALONE = 1
_WITH_SEED = 2


class Places:
    """Numbers the layers of a mixture that could start alike.

    A layer's place is how many layers of its kind and seed come before it, plus
    one. So gates that differ in their seeds do not depend on each other.
    """

    def __init__(self) -> None:
        self._taken: Counter[tuple[str, int | None]] = Counter()

    def next(self, kind: str, seed: int | None) -> int:
        """The place of the next layer.

        Args:
            kind: Kind of the layer, such as `"gate"`.
            seed: Its seed, if any.
        """
        self._taken[kind, seed] += 1
        return self._taken[kind, seed]


def independent(
    initializer: Initializer,
    index: int,
    seed: int | None = None,
    place: int | str = 1,
) -> Initializer:
    """An initializer of the same distribution with a draw of its own.

    Args:
        initializer: A Keras initializer. One without a `seed` (such as zeros,
            or a plain function) is returned as it is.
        index: Purpose of the draw; draws with different indices differ.
        seed: The layer's seed. When neither it nor the initializer has one,
            the draw comes from Keras's global seed.
        place: The layer's place in its mixture, or the name of a layer that
            stands alone. Names make a difference only where layers share one
            seeded instance.

    Returns:
        The initializer to use for weight `index`.
    """
    if not isinstance(initializer, keras.initializers.Initializer):
        return initializer
    if initializer.get_config().get("seed") is None:
        number = place if isinstance(place, int) else 1
        return _reseeded(initializer, seed, index, number)
    numbers = [index]
    if isinstance(place, str):
        names = _alone.setdefault(initializer, [])
        if place not in names:
            names.append(place)
        numbers += [names.index(place) + 1, _ALONE]
    else:
        numbers += [place]
    if seed is not None:
        numbers += [_WITH_SEED, seed & 0xFFFFFFFF]
    return _reseeded(initializer, None, *numbers)


def derived_seed(seed: int, *numbers: int) -> int:
    """A seed that differs for every `(seed, *numbers)`."""
    sequence = np.random.SeedSequence([seed & 0xFFFFFFFF, *numbers])
    return int(sequence.generate_state(1)[0] >> 1)


def _reseeded(
    initializer: Initializer, seed: int | None, *numbers: int
) -> Initializer:
    """Derives the initializer's seed, or `seed` where it has none."""
    if not isinstance(initializer, keras.initializers.Initializer):
        return initializer
    config = initializer.get_config()
    if "seed" not in config:
        return initializer
    own_seed = config["seed"]
    if own_seed is not None and not isinstance(own_seed, int):
        return initializer  # A SeedGenerator: it advances at every call.
    base = seed if own_seed is None else own_seed
    config["seed"] = None if base is None else derived_seed(base, *numbers)
    return initializer.__class__.from_config(config)


def fan_in_uniform() -> keras.initializers.Initializer:
    """The initializer U(-1/√p, 1/√p) of a kernel `(p, N)`."""
    # A variance of scale / p is that of a uniform draw within √(3 scale / p).
    return keras.initializers.VarianceScaling(
        scale=1 / 3, mode="fan_in", distribution="uniform"
    )


class PerExpert(keras.initializers.Initializer):
    """Draws each expert's slice with its own fans and its own seed.

    Args:
        initializer: The initializer of one expert's weight.
        index: Number of the weight; weights with different indices differ.
        seed: The bank's seed, if any.
        place: As in `independent`.
    """

    def __init__(
        self,
        initializer: Initializer,
        index: int,
        seed: int | None = None,
        place: int | str = 1,
    ) -> None:
        self.initializer = independent(initializer, index, seed, place)

    def __call__(
        self, shape: Sequence[int], dtype: DTypeLike | None = None
    ) -> Tensor:
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
