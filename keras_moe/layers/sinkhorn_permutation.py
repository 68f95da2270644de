import keras
import numpy as np
import numpy.typing as npt
from keras import ops
from scipy.optimize import linear_sum_assignment

from keras_moe.checks import check_choice
from keras_moe.checks import check_non_negative
from keras_moe.checks import check_size
from keras_moe.layers.checked_layer import CheckedLayer
from keras_moe.layers.configuration import serialized_parameters
from keras_moe.layers.float_inputs import as_float
from keras_moe.layers.initialization import independent
from keras_moe.ops._affine import affine
from keras_moe.ops._annealed_sinkhorn import log_annealed_sinkhorn
from keras_moe.ops.entropy import entropy
from keras_moe.ops.sinkhorn import log_sinkhorn
from keras_moe.private_names import is_stateless
from keras_moe.types import Config
from keras_moe.types import DTypeLike
from keras_moe.types import InitializerLike
from keras_moe.types import Shape
from keras_moe.types import Tensor

# What the search begins and ends with, as published.
NUM_ITERATIONS = (20, 150)
LOG10_TEMPERATURE = (-3.0, -7.0)

# Of the annealed schedule, per expert: 10 take all of 1,000 random matrices of
# 16 experts to a permutation, 5 leave 4 % away from one.
ANNEALED_ITERATIONS = 10

SCHEDULES = ("published", "annealed")

# What of the applied matrix sums to 1 at every step of the search.
NORMALIZED = ("rows", "columns")


@keras.saving.register_keras_serializable(package="keras_moe")
class SinkhornPermutation(CheckedLayer):
    """Learns which expert each entry of a gate's weights belongs to.

    Computes `P g`, `P[i, j] = 1` where entry `j` goes to expert `i`. While
    the search goes on, training makes `P` soft, so that it has a gradient: of
    the Sinkhorn operator's `S = S^R(U/τ)`, whose columns sum to 1 exactly and
    whose rows do in the limit, it takes the transpose, or `S` itself.

    * `normalized="rows"`: `P = S^T`, as in the authors' code. At every step,
      the weight of each expert is a weighted mean of the gate's entries.
    * `normalized="columns"`: `P = S`, as the paper's formula reads. Each
      entry of the gate is shared out among the experts. Late in the search
      the rows still sum to anything from 0.3 to 3: some experts get what
      several entries give, others nothing.

    The result is rescaled to the sum of `g`. From step to step, `f` being the
    share of the search that is done, `P` becomes harder:

        R = 20 + 130 f,    log10 τ = -3 - 4 f.

    With `schedule="published"`, nothing makes sure that it comes to a
    permutation: at a temperature `τ`, Sinkhorn's iteration takes about
    `(max U - min U) / τ` steps to converge, a million at the end, in any
    precision. `U` has to be moved to where each row and each column have their
    largest entry in the same place.

    `schedule="annealed"` ends at a permutation, the linear assignment of `U`,
    unless another one is as good to about 1e-6. `τ` as above is only the last
    of the iteration's temperatures, which fall by the same factor from step to
    step, from 0.3 (max U - min U), in `R = 10 n` steps throughout the search.
    Columns sum to 1, and rows to within a few percent, at any moment. The
    matrix is hard, and its gradient gone, once `τ` is well below what sets the
    best assignment of `U` apart from the second best: with half of random
    logits after a quarter of the search.

    Evaluation always takes the permutation that is nearest to the soft `P`,
    its linear assignment, and so does training after the search. Neither
    computes more than a `take`.

    `keras_moe.callbacks.PermutationSearch` tells the layer how long to
    search, updates the hard `P`, and ends the search. Without it, the search
    never ends: training stays soft, at `f = 0`, and evaluation takes the
    assignment of the initial logits, unless `harden` and `freeze` are called.

    Where several gates share the layer, a step of the training counts once,
    and so does its loss.

    Attributes:
        logits: `U`, `(n, n)`. Not read any more after the search.
        order: `(n,)`, integers: expert `i` gets entry `order[i]`.
        step: Scalar integer, the steps of the search so far.
        num_steps: Scalar integer, the steps of the whole search; 0 while it
            is not known.
        frozen: Scalar boolean, whether the search is over.
        num_gates: Number of `PermutedGate`s that use the layer.

    Args:
        num_experts: Integer `n >= 2`.
        entropy_weight: Number `>= 0`, defaults to 1e-4. Weight `ζ` of
            `Ω(S) + Ω(S with rows that sum to 1)` in the loss, `Ω` being the
            entropy over all entries; it keeps `S` from settling between two
            permutations.
        normalized: "rows" or "columns", what of the soft `P` sums to 1.
            Defaults to "rows".
        schedule: "published" or "annealed". Defaults to "published".
        logits_initializer: Initializer of `logits`, defaults to
            U(-0.05, 0.05).
        seed: Optional integer, seeds an initializer without a seed.
        **kwargs: `name`, `trainable`. A `dtype` is accepted and has no
            effect: the layer is float32.

    Call arguments:
        inputs: Tensor `(..., n)`, weights.
        training: Boolean. Whether to search, if the search is not over.

    Returns:
        Float32 tensor `(..., n)`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `num_experts` is outside `[2, 2^31)`,
            `entropy_weight < 0`, `normalized` or `schedule` is another string,
            or the inputs have not `n` entries.

    Example:
        >>> permutation = SinkhornPermutation(num_experts=3)
        >>> permutation.build((None, 3))
        >>> _ = permutation.order.assign([2, 0, 1])
        >>> weights = permutation(np.array([[0.5, 0.3, 0.2]]))
        >>> [round(float(weight), 4) for weight in weights[0]]
        [0.2, 0.5, 0.3]

    References:
        Ibrahim et al., COMET: Learning Cardinality Constrained Mixture of
        Experts with Trees and Local Search, KDD 2023, section 4: eq. 8 is
        `S`, eq. 4a applies it.
    """

    @property
    def _smallest_ranks(self) -> dict[str, int]:
        return {"inputs": 1}

    # The place of the first gate that it serves; `None` outside a mixture.
    _place: int | None = None

    def __init__(
        self,
        num_experts: int,
        entropy_weight: float = 1e-4,
        logits_initializer: InitializerLike = "random_uniform",
        seed: int | None = None,
        normalized: str = "rows",
        schedule: str = "published",
        **kwargs: object,
    ) -> None:
        kwargs["dtype"] = "float32"
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_experts = check_size("num_experts", num_experts, 2)
        self.entropy_weight = check_non_negative(
            "entropy_weight", entropy_weight
        )
        self.logits_initializer = keras.initializers.get(logits_initializer)
        self.seed = seed
        self.normalized = check_choice("normalized", normalized, NORMALIZED)
        self.schedule = check_choice("schedule", schedule, SCHEDULES)
        self.num_gates = 0

    def build(self, input_shape: Shape) -> None:
        if input_shape[-1] != self.num_experts:
            raise ValueError(
                f"`inputs` must have {self.num_experts} entries in the last "
                f"axis, one per expert. Received: shape {input_shape}"
            )
        self.input_spec = keras.layers.InputSpec(axes={-1: self.num_experts})
        self.logits = self.add_weight(
            name="logits",
            shape=(self.num_experts, self.num_experts),
            initializer=independent(
                self.logits_initializer, 0, self.seed, self._place or self.name
            ),
        )
        self.step = self._add_state("step", (), "int")
        self.num_steps = self._add_state("num_steps", (), "int")
        self.frozen = self._add_state("frozen", (), "bool")
        self.order = self._add_state(
            "order", (self.num_experts,), "int", self._initial_order
        )

    @property
    def _widths(self) -> dict[str, int | None]:
        return {"inputs": self.num_experts} if self.built else {}

    def _initial_order(
        self, shape: tuple[int, ...], dtype: DTypeLike
    ) -> Tensor:
        if is_stateless():  # Keras traces the model, in order to build it.
            return ops.arange(self.num_experts, dtype=dtype)
        order = _assignment(self._soft_matrix())
        return ops.convert_to_tensor(order, dtype=dtype)

    def _add_state(
        self,
        name: str,
        shape: Shape,
        dtype: str,
        initializer: InitializerLike = "zeros",
    ) -> keras.Variable:
        return self.add_weight(
            name=name,
            shape=shape,
            dtype=dtype,
            initializer=initializer,
            trainable=False,
        )

    @property
    def num_iterations(self) -> Tensor:
        """`R` of the current step, a scalar integer; 0 after the search."""
        first, last = NUM_ITERATIONS
        if self.schedule == "annealed":
            first = last = ANNEALED_ITERATIONS * self.num_experts
        done, total = self._progress()
        iterations = first + (last - first) * done // total
        return iterations * ops.cast(self._is_searching(), iterations.dtype)

    @property
    def temperature(self) -> Tensor:
        """`τ` of the current step, a scalar."""
        first, last = LOG10_TEMPERATURE
        done, total = (ops.cast(x, "float32") for x in self._progress())
        return ops.power(10.0, first + (last - first) * done / total)

    def _is_searching(self) -> Tensor:
        return ops.logical_not(self.frozen)

    def _progress(self) -> tuple[Tensor, Tensor]:
        """The steps done, and of how many; 0 of 1 while that is unknown."""
        done = ops.minimum(self.step, self.num_steps)
        return done, ops.maximum(self.num_steps, 1)

    def _log_sinkhorn(self) -> Tensor:
        """The logarithm of `S`."""
        if self.schedule == "annealed":
            return log_annealed_sinkhorn(
                self.logits,
                self.temperature,
                self.num_iterations,
                max_iterations=ANNEALED_ITERATIONS * self.num_experts,
            )
        return log_sinkhorn(
            self.logits,
            self.temperature,
            self.num_iterations,
            max_iterations=NUM_ITERATIONS[1],
        )

    def _soft_matrix(self) -> npt.NDArray[np.float32]:
        sinkhorn = ops.convert_to_numpy(ops.exp(self._log_sinkhorn()))
        return sinkhorn.T if self.normalized == "rows" else sinkhorn

    def _hard_matrix(self) -> npt.NDArray[np.float32]:
        order = ops.convert_to_numpy(self.order)
        return np.eye(self.num_experts, dtype="float32")[order]

    def matrix(self) -> npt.NDArray[np.float32]:
        """Returns the `P` that training takes at this moment.

        Not for compiled functions.

        Returns:
            Array `(n, n)`, soft in the search and hard after it. Row `i` says
            which entries expert `i` gets.
        """
        if ops.convert_to_numpy(self.frozen):
            return self._hard_matrix()
        return self._soft_matrix()

    def harden(self) -> float:
        """Updates the hard permutation from the soft one, while searching.

        Not for compiled functions: the linear assignment is solved by SciPy.

        Returns:
            How far apart the two matrices are, in the Frobenius norm; 0 after
            the search.
        """
        if ops.convert_to_numpy(self.frozen):
            return 0.0
        soft = self._soft_matrix()
        self.order.assign(_assignment(soft))
        return float(np.linalg.norm(soft - self._hard_matrix()))

    def freeze(self) -> None:
        """Ends the search: from now on, training takes `order` as well."""
        self.frozen.assign(True)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        inputs = as_float(inputs, self.compute_dtype)
        if not training:
            return self._reorder(inputs)
        searching = self._is_searching()
        # Later calls in the same step come from gates that share the layer.
        is_first = not self.losses
        if is_first:
            self.step.assign_add(ops.cast(searching, self.step.dtype))
        # Not in the branch, where XLA cannot differentiate the loop. After the
        # search the loop ends before its first step.
        log_sinkhorn = self._log_sinkhorn()
        outputs, loss = ops.cond(
            searching,
            lambda: self._soften(inputs, log_sinkhorn),
            # A gradient of zero: optimizers warn where there is none.
            lambda: (self._reorder(inputs), 0.0 * ops.sum(self.logits)),
        )
        if is_first:
            self.add_loss(loss)
        return outputs

    def _reorder(self, weights: Tensor) -> Tensor:
        return ops.take(weights, self.order, axis=-1)  # (..., n), permuted.

    def _soften(
        self, weights: Tensor, log_sinkhorn: Tensor
    ) -> tuple[Tensor, Tensor]:
        sinkhorn = ops.exp(log_sinkhorn)
        # (..., n) times P^T (n, n), which is S where P is its transpose.
        if self.normalized == "rows":
            outputs = affine(weights, sinkhorn)
        else:
            outputs = affine(weights, ops.transpose(sinkhorn))
        total = ops.sum(weights, axis=-1, keepdims=True)
        soft_total = ops.sum(outputs, axis=-1, keepdims=True)
        # A row without any weight stays at zero.
        scale = total / ops.where(soft_total > 0, soft_total, 1.0)
        rows = ops.softmax(log_sinkhorn)
        penalty = entropy(sinkhorn, None) + entropy(rows, None)
        return outputs * scale, self.entropy_weight * penalty

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> Config:
        config = super().get_config()
        del config["dtype"]
        return {
            **config,
            **serialized_parameters(self),
            "num_experts": self.num_experts,
            "entropy_weight": self.entropy_weight,
            "seed": self.seed,
            "normalized": self.normalized,
            "schedule": self.schedule,
        }


def _assignment(soft: npt.NDArray[np.float32]) -> npt.NDArray[np.intp]:
    """The column of each row in the permutation matrix nearest to `soft`."""
    return linear_sum_assignment(soft, maximize=True)[1]
