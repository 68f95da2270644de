import keras
import numpy as np
from keras import ops

from keras_moe.checks import check_integer
from keras_moe.layers.sinkhorn_permutation import SinkhornPermutation
from keras_moe.private_names import each_layer
from keras_moe.types import Logs


class PermutationSearch(keras.callbacks.Callback):
    """Searches for the permutations of a model in the first epochs.

    Every `SinkhornPermutation` in the model, shared or not, is trained for
    `epochs` epochs, in which it turns from soft to hard, step by step; then
    its linear assignment is frozen, and the rest of the training costs no
    more than without permutations. Validation takes the hard permutation of
    the moment.

    The state of the search is part of the model: a saved model, or a training
    continued with `initial_epoch`, continues the search. A finished search
    stays finished.

    The logs of each epoch get

    * `permutation_distance`: the distance between the soft matrix that
      training uses and the hard one of evaluation, in the Frobenius norm; 0
      after the search. With several permutations there is one for each,
      `<layer name>_permutation_distance`.

    Where the number of steps in an epoch is not known, as with a generator,
    the first epoch counts them, and searches as softly as the search begins.

    A distance far above 0 at the end of the search means that the experts were
    trained with other weights than they go on with. It is in `distances` then,
    too. `SinkhornPermutation(n, schedule="annealed")` ends near 0.

    Callbacks that read the logs, save the model or look at its routing
    belong after this one.

    Attributes:
        distances: By the name of each permutation, its distance when the
            search was last at work in this training: once it is over, that at
            its end. Empty where it was over before this training began.

    Args:
        epochs: Integer `>= 1`, the epochs of the search; published searches
            use 1 to 10.

    Raises:
        TypeError: If `epochs` is not an integer.
        ValueError: If `epochs < 1`, or, when training begins, the model has
            no permutation.

    Example:
        >>> gate = keras_moe.layers.PermutedGate(
        ...     keras_moe.layers.TopKGate(4, k=2)
        ... )
        >>> model = keras.Sequential(
        ...     [
        ...         keras_moe.layers.MoE(
        ...             gate, keras_moe.layers.MLPExperts(4, 8)
        ...         ),
        ...         keras.layers.Dense(1),
        ...     ]
        ... )
        >>> model.compile("adam", "mse")
        >>> x, y = np.random.rand(64, 3), np.random.rand(64, 1)
        >>> history = model.fit(
        ...     x, y, epochs=3, verbose=0, callbacks=[PermutationSearch(2)]
        ... )
        >>> history.history["permutation_distance"][-1]
        0.0

    References:
        Ibrahim et al., COMET: Learning Cardinality Constrained Mixture of
        Experts with Trees and Local Search, KDD 2023, section 4.3.
    """

    def __init__(self, epochs: int) -> None:
        super().__init__()
        self.epochs = check_integer("epochs", epochs, 1)
        self.distances: dict[str, float] = {}
        self._frozen_logits: list[tuple[keras.Variable, np.ndarray]] = []

    @property
    def permutations(self) -> list[SinkhornPermutation]:
        """The permutations of the model, each once."""
        return [
            layer
            for layer in each_layer(self.model)
            if isinstance(layer, SinkhornPermutation)
        ]

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.distances = {}
        permutations = self.permutations
        if not permutations:
            raise ValueError(
                "The model must have a SinkhornPermutation, such as that of "
                f"a PermutedGate. Received: model={self.model!r}"
            )
        for permutation in permutations:
            # TensorFlow builds a model on its first batch.
            if not permutation.built:
                permutation.build((None, permutation.num_experts))

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self._frozen_logits = []
        for permutation in self.permutations:
            self._set_length(permutation)
            # The model may have been saved before the search was ended.
            self._advance(permutation)
            if _value(permutation.frozen):
                logits = permutation.logits
                self._frozen_logits.append((logits, _value(logits)))

    def on_test_begin(self, logs: Logs | None = None) -> None:
        for permutation in self.permutations:
            permutation.harden()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        # Momentum and weight decay move even what has no gradient.
        for variable, value in self._frozen_logits:
            variable.assign(value)
        distances = {}
        for permutation in self.permutations:
            if not _value(permutation.num_steps):
                permutation.num_steps.assign(
                    self.epochs * _value(permutation.step)
                )
            distances[permutation.name] = self._advance(permutation)
        if logs is not None:
            logs.update(_as_logs(distances))

    def _set_length(self, permutation: SinkhornPermutation) -> None:
        steps = self.params["steps"]
        if steps is not None and not _value(permutation.frozen):
            permutation.num_steps.assign(self.epochs * steps)

    def _advance(self, permutation: SinkhornPermutation) -> float:
        """Hardens the permutation, and freezes it when its search is over."""
        searching = not _value(permutation.frozen)
        distance = permutation.harden()
        if searching:
            self.distances[permutation.name] = distance
        step = _value(permutation.step)
        num_steps = _value(permutation.num_steps)
        # To the nearest epoch: epochs of a generator may differ in length.
        if num_steps and round(self.epochs * step / num_steps) >= self.epochs:
            permutation.freeze()
        return distance


def _value(variable: keras.Variable) -> np.ndarray:
    return ops.convert_to_numpy(variable)


def _as_logs(distances: dict[str, float]) -> dict[str, float]:
    """Names every distance as the class docstring says."""
    several = len(distances) > 1
    return {
        f"{name}_permutation_distance"
        if several
        else "permutation_distance": distance
        for name, distance in distances.items()
    }
