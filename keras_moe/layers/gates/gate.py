from collections.abc import Collection
from collections.abc import Mapping

import keras
from keras import ops

from keras_moe.checks import check_choice
from keras_moe.checks import check_integer
from keras_moe.checks import check_non_negative
from keras_moe.checks import check_size
from keras_moe.layers.checked_layer import CheckedLayer
from keras_moe.layers.configuration import serialized_parameters
from keras_moe.layers.initialization import Initializer
from keras_moe.layers.initialization import independent
from keras_moe.layers.routed_rows import check_mask
from keras_moe.ops._bounded import bounded
from keras_moe.ops._example_mean import example_mean
from keras_moe.ops.top_k import top_k_mask
from keras_moe.regularizers import importance_loss
from keras_moe.regularizers import load_balance_loss
from keras_moe.regularizers import load_loss
from keras_moe.regularizers import router_z_loss
from keras_moe.types import Config
from keras_moe.types import FloatLike
from keras_moe.types import IntegerLike
from keras_moe.types import RegularizerLike
from keras_moe.types import Shape
from keras_moe.types import Tensor

# The arguments that weigh the losses of a router.
ROUTER_LOSSES = (
    "importance_loss_weight",
    "load_loss_weight",
    "load_balance_loss_weight",
    "z_loss_weight",
)


@keras.saving.register_keras_serializable(package="keras_moe")
class Gate(CheckedLayer):
    """Base class of the gates: how much each expert counts for each example.

    A gate maps inputs `(..., p)` to float32 weights `(..., n)`, `n` being
    `num_experts`; a static gate ignores its inputs and returns `(n,)`. It
    computes in float32 under any dtype policy, since a rounded routing
    decision is another decision. Integers are taken as float32, and features
    beyond ±2^80 (1.2e24) as that: all finite inputs have finite weights. NaN
    among an example's features is NaN among its weights.

    A subclass implements `build` and `compute_weights`, sets the class
    attributes below where they differ, and adds its arguments to
    `get_config`, but for initializers and regularizers: attributes whose
    names end in `_initializer` or `_regularizer` are there already. Losses
    of its own go through `add_training_loss`; a call of `add_router_losses`
    gives it those that any gate can have.

    Where the inputs carry a Keras mask, masked positions get no weight and
    count in no loss.

    Attributes:
        k: Bound on the experts per example, or `None` for a dense gate.
        static: Whether the weights do not depend on the example.
        always_sparse: Whether no example ever has more than `k` weights
            that are not zero. `False` for gates that become sparse while
            they train.
        on_simplex: Whether the weights of each example are not negative and
            sum to 1. `False` promises nothing.
        feature_rank: How many trailing axes of the input describe one
            example: 1 for features `(..., p)`, 0 for ids `(...)`.
        synchronized: Whether an example's weights depend on the whole batch,
            over all devices: `max_pairs` then says nothing of the examples of
            one device. `False` for gates that look at each example alone.
        takes_budget: Whether a call may have a `budget`, the experts per
            example on average. Mixtures hand theirs on to such gates.

    What these say is relied on: sparse execution has room for as many weights
    as a gate promises at most, and for no more. `keras_moe.layers.verify_gate`
    finds out whether a gate is what they say. What follows is for defaults,
    tuning, advice and reports:

    Attributes:
        always_dense: Whether each expert has weight for each example.
        dense_in_training: Whether that is so while the gate trains, whatever
            it selects at inference. `False` for gates that start dense and
            become sparse while they train.
        held_at_k: Whether a penalty or a controller keeps the examples at
            about `k` experts on average.
        sparse_at: Experts per example at inference up to which a gate without
            `k` counts as sparse; `None` where that is no question.
        fixed_by_seed: Whether nothing is trained: gates of one seed have the
            same weights.
        separable: Whether an expert's score depends on no other expert: the
            weights have an axis of the experts, or no part in the scores, and
            some entries of it make a gate over these experts.
        balance_loss: The argument that weighs the loss which brings unused
            experts back; `None` where no loss does.

    Args:
        num_experts: Integer `n >= 2`.
        k: Integer in `[1, n]`, or `None` for a dense gate.
        static: Boolean, defaults to `False`.
        seed: Optional integer. Seeds the initializers that have no seed of
            their own, and the noise of gates that draw any.
        importance_loss_weight: Number `>= 0`, defaults to 0. Weight of
            `keras_moe.regularizers.importance_loss` in the loss.
        load_loss_weight: The same of `load_loss`.
        load_balance_loss_weight: The same of `load_balance_loss`.
        load_balance_choices: `"all"` (default) or `"first"`, which of an
            example's `k` experts that loss counts. The Switch Transformer,
            where `k` is 1, counts the first. With all of them the loss is `k`
            where the load is even, `k` times that of the first alone.
        z_loss_weight: The same of `router_z_loss`.
        **kwargs: `name`, `trainable`. A `dtype` is accepted and has no effect:
            a gate is float32.

    Call arguments:
        inputs: Tensor `(..., p)`, or ids `(...)` where `feature_rank` is 0.
        training: Boolean. Losses are added, and noise drawn, only when true.
        mask: Boolean tensor `(...)`, false for padding. Defaults to the
            inputs' Keras mask, if any.

    Returns:
        Float32 tensor `(..., n)`; `(n,)` for a static gate.

    Raises:
        TypeError: If `num_experts` or `k` is not an integer.
        ValueError: If `num_experts` is outside `[2, 2^31)`, `k` is outside
            `[1, num_experts]` or the weight of a loss is negative, or
            `load_balance_choices` is unknown.
    """

    always_sparse = False
    on_simplex = False
    feature_rank = 1
    synchronized = False
    takes_budget = False
    always_dense = False
    dense_in_training = False
    held_at_k = False
    sparse_at: int | None = None
    fixed_by_seed = False
    separable = False
    balance_loss: str | None = "load_balance_loss_weight"
    _noun = "gate"
    _fewest_experts = 2
    # Which of the gates of its mixture and seed it is; `None` for one that
    # stands alone.
    _place: int | None = None

    def __init__(
        self,
        num_experts: int,
        k: int | None = None,
        static: bool = False,
        seed: int | None = None,
        importance_loss_weight: float = 0.0,
        load_loss_weight: float = 0.0,
        load_balance_loss_weight: float = 0.0,
        load_balance_choices: str = "all",
        z_loss_weight: float = 0.0,
        **kwargs: object,
    ) -> None:
        kwargs["dtype"] = "float32"
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_experts = check_size(
            "num_experts", num_experts, self._fewest_experts
        )
        self.k = None if k is None else check_integer("k", k, 1, num_experts)
        if not isinstance(static, bool):
            raise TypeError(
                f"`static` must be a boolean. Received: static={static!r}"
            )
        self.static = static
        self.seed = seed
        self.importance_loss_weight = check_non_negative(
            "importance_loss_weight", importance_loss_weight
        )
        self.load_loss_weight = check_non_negative(
            "load_loss_weight", load_loss_weight
        )
        self.load_balance_loss_weight = check_non_negative(
            "load_balance_loss_weight", load_balance_loss_weight
        )
        self.load_balance_choices = check_choice(
            "load_balance_choices", load_balance_choices, ("all", "first")
        )
        self.z_loss_weight = check_non_negative("z_loss_weight", z_loss_weight)

    def _hidden_arguments(self) -> Collection[str]:
        return {"name", *self._unused_arguments()}

    def _unused_arguments(self) -> set[str]:
        """The arguments that change nothing at their values."""
        unused = {name for name in ROUTER_LOSSES if not getattr(self, name)}
        if "load_balance_loss_weight" in unused:
            unused.add("load_balance_choices")
        return unused

    @classmethod
    def first_options(cls, k: int) -> Config:
        """Returns arguments to begin with where nothing is tuned.

        Args:
            k: Number of experts per example.

        Returns:
            Arguments of the class beside `num_experts` and `k`, where other
            values than their defaults do well on data of any size.
        """
        return {}

    @property
    def experts_per_row(self) -> float | None:
        """The experts per example that sparse execution plans for.

        A mean over the batch; `None` for a dense gate.
        """
        return self.k

    def max_pairs(self, num_rows: IntegerLike) -> IntegerLike:
        """The (row, expert) pairs that sparse execution plans for."""
        return num_rows * (self.k or self.num_experts)

    def planned_experts(
        self,
        budget: FloatLike | None,
        training: bool | None,
        num_gates: int = 1,
    ) -> float | None:
        """Returns the experts per example that execution plans for in a call.

        Args:
            budget: What the gate is called with, if it takes a budget.
            training: Boolean, what the gate is called with.
            num_gates: How many gates share the experts.

        Returns:
            A number, or `None` where a call changes nothing: it is then what
            the gate promises by `k`, `max_pairs` and `is_bounded`.
        """
        return None

    def is_bounded(self, training: bool | None) -> bool:
        """Returns whether every batch has at most `max_pairs` pairs."""
        return self.always_sparse

    def add_independent_weight(
        self,
        name: str,
        shape: Shape,
        initializer: Initializer,
        regularizer: RegularizerLike = None,
    ) -> keras.Variable:
        """Adds a weight whose initial values no other weight shares.

        They follow from the seeds of the initializer and the gate, the number
        of weights before, and the gate's place in its mixture. So gates of a
        mixture may share an initializer, seeded or not, and a model that is
        built once more with the same seeds is the same. A gate that stands
        alone is told from others with the same seeded instance by its name.
        """
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=independent(
                initializer,
                len(self.weights),
                self.seed,
                self._place or self.name,
            ),
            regularizer=regularizer,
        )

    def add_training_loss(
        self, losses: Tensor, training: bool | None, mask: Tensor | None = None
    ) -> None:
        """Adds the mean of the examples' `losses`, while training.

        Args:
            losses: Tensor `(...)`, one loss per example; a scalar for a
                static gate. A batch without examples has the loss 0.
            training: Boolean, whether to add it.
            mask: Boolean tensor `(...)`, the examples that count, or `None`.
        """
        if training:
            mask = None if self.static else mask
            self.add_loss(example_mean(losses, mask))

    def add_router_losses(
        self,
        weights: Tensor,
        logits: Tensor,
        training: bool | None,
        mask: Tensor | None = None,
        noisy_logits: Tensor | None = None,
        noise_std: FloatLike | None = None,
        load_bar: str = "all",
    ) -> None:
        """Adds the losses that any gate can have, while training.

        Args:
            weights: Tensor `(..., n)`, what the importance loss adds up.
            logits: Tensor `(..., n)`, without noise, from which
                `compute_probabilities` has those of the experts.
            training: Boolean, whether to add them.
            mask: Boolean tensor `(...)`, the examples that count, or `None`.
            noisy_logits: Tensor `(..., n)` whose `k` largest entries are
                chosen. Defaults to `logits`.
            noise_std: The noise's standard deviation, defaults to `1/n`.
            load_bar: The `bar` of `load_loss`, defaults to `"all"`.
        """
        if not training:
            return
        mask = None if self.static else mask
        noisy_logits = logits if noisy_logits is None else noisy_logits
        noise_std = 1 / self.num_experts if noise_std is None else noise_std
        k = self.k or 1
        if self.importance_loss_weight:
            loss = importance_loss(weights, mask)
            self.add_loss(self.importance_loss_weight * loss)
        if self.load_loss_weight:
            loss = load_loss(
                logits, noisy_logits, k, noise_std, mask, bar=load_bar
            )
            self.add_loss(self.load_loss_weight * loss)
        if self.load_balance_loss_weight:
            probabilities = self.compute_probabilities(logits)
            counted = 1 if self.load_balance_choices == "first" else k
            chosen = top_k_mask(noisy_logits, counted)
            loss = load_balance_loss(probabilities, chosen, mask)
            self.add_loss(self.load_balance_loss_weight * loss)
        if self.z_loss_weight:
            self.add_loss(self.z_loss_weight * router_z_loss(logits, mask))

    def compute_probabilities(self, logits: Tensor) -> Tensor:
        """Returns the probability of each expert, for the losses of the router.

        Args:
            logits: Tensor `(..., n)`.

        Returns:
            Tensor `(..., n)` on the simplex: the softmax of the logits, unless
            a gate makes its weights of something else.
        """
        return ops.softmax(logits, axis=-1)

    def compute_weights(
        self, inputs: Tensor, training: bool | None, mask: Tensor | None
    ) -> Tensor:
        """Returns the weights `(..., n)`, or `(n,)` for a static gate.

        What it returns for masked positions does not matter.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `compute_weights`."
        )

    def compute_selectors(self, inputs: Tensor) -> Tensor | None:
        """Returns the selectors of a gate that comes to choose by training.

        Each of the `k` selectors of an example spreads a probability over the
        experts: all of it is on one expert once its choice is certain. `None`
        for gates without selectors.

        Args:
            inputs: Float32 tensor `(..., p)`; a static gate ignores it.

        Returns:
            Float32 tensor `(..., k, n)`, `(k, n)` for a static gate, or
            `None`.
        """
        return None

    def call(
        self,
        inputs: Tensor,
        training: bool | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        if self.feature_rank and not self.static:
            inputs = bounded(inputs)
        if mask is None:
            return self.compute_weights(inputs, training, mask)
        check_mask("mask", mask, self._leading(inputs.shape))
        if self.static:
            return self.compute_weights(inputs, training, mask)
        mask = ops.cast(mask, "bool")
        # Padding may hold anything, NaN included, which gradients would find.
        inputs = ops.where(
            # (..., 1) for features, (...) for ids.
            ops.reshape(mask, ops.shape(mask) + (1,) * self.feature_rank),
            inputs,
            ops.zeros_like(inputs),
        )
        weights = self.compute_weights(inputs, training, mask)
        return ops.where(mask[..., None], weights, 0.0)

    @property
    def _smallest_ranks(self) -> dict[str, int]:
        # An id of no axis is one example; a vector alone could be a batch.
        return {"inputs": 2 if self.feature_rank else 0}

    @property
    def _widths(self) -> dict[str, int | None]:
        if self.static or self.feature_rank == 0 or not self.built:
            return {}
        return {"inputs": self.get_build_config()["input_shape"][-1]}

    def _leading(self, input_shape: Shape) -> Shape:
        """The dimensions that say what is weighed."""
        return tuple(input_shape[: len(input_shape) - self.feature_rank])

    def compute_mask(
        self, inputs: Tensor, previous_mask: Tensor | None
    ) -> Tensor | None:
        return None if self.static else previous_mask

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        if self.static:
            return (self.num_experts,)
        return (*self._leading(input_shape), self.num_experts)

    def get_config(self) -> Config:
        config = super().get_config()
        del config["dtype"]
        return {
            **config,
            **serialized_parameters(self),
            "num_experts": self.num_experts,
            "seed": self.seed,
            **{name: getattr(self, name) for name in ROUTER_LOSSES},
            "load_balance_choices": self.load_balance_choices,
        }


def check_gate(name: str, gate: object) -> None:
    """Raises a TypeError unless `gate` is a `Gate`."""
    if not isinstance(gate, Gate):
        raise TypeError(
            f"`{name}` must be a keras_moe Gate. "
            f"Received: {name}={gate!r} of type {type(gate).__name__}"
        )


def check_no_router_losses(
    arguments: Mapping[str, object], reason: str
) -> None:
    """Raises a ValueError where the weight of a router's loss is given."""
    for name in ROUTER_LOSSES:
        if arguments.get(name):
            raise ValueError(
                f"`{name}` must be 0: {reason}. "
                f"Received: {name}={arguments[name]!r}"
            )
