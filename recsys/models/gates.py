"""The classes of the gates by name, and their options."""

import inspect
from collections.abc import Collection
from math import ceil
from typing import Any
from typing import get_type_hints

from keras_moe import layers
from recsys.config.gate_names import GATES
from recsys.config.gate_names import INNER_GATES
from recsys.config.gate_names import GateChoice
from recsys.config.gate_names import expected_gates
from recsys.errors.arguments import typed_arguments
from recsys.errors.bounds import LARGEST_COUNT
from recsys.errors.bounds import LARGEST_WIDTH
from recsys.errors.shown import did_you_mean
from recsys.errors.shown import shown
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject

# These follow from the run's other settings.
_DERIVED = ("num_experts", "k", "num_buckets", "seed")


def gate_class(name: str) -> type[layers.Gate]:
    """Returns the class of the gate of that name, with or without a `+`.

    Raises:
        ValueError: There is no such gate.
    """
    base = GateChoice.parse(name).name
    if base not in GATES:
        raise ValueError(
            f"`gate` must be {expected_gates(name)}. Received: gate={name!r}"
        )
    gate: type[layers.Gate] = getattr(layers, GATES[base].layer)
    return gate


def option_types(name: str, inner: str | None = None) -> dict[str, object]:
    """Returns what the options of the gate of that name are annotated with.

    A gate around another has the option `inner`, and those of that one.

    Args:
        name: Name of the gate.
        inner: For a gate around another, the name of that one. Defaults to the
            gate that it has unless told otherwise.

    Raises:
        ValueError: There is no such gate.

    Example:
    >>> option_types("hash")["balanced"]
    <class 'bool'>
    >>> option_types("budget", inner="top-k")["noisy"]
    <class 'bool'>
    """
    around = GATES[_known(name)].inner
    hints = _arguments(gate_class(name))
    if around is not None:
        outer = _own_arguments(gate_class(name))
        hints = {
            "inner": str,
            **outer,
            **_arguments(gate_class(inner or around)),
        }
    return {key: hints[key] for key in hints if key not in _DERIVED}


def typed_options(name: str, options: JsonMapping) -> JsonObject:
    """Gives the texts among a gate's options the types of its arguments.

    Args:
        name: Name of the gate.
        options: Arguments of the gate's constructor beyond `num_experts` and
            `k`. A text is read as what the argument is annotated with; any
            other value is taken as it is.

    Raises:
        ValueError: There is no such gate or option, a text is not of the
            option's type, or a number is too large.

    Example:
    >>> typed_options("comet", {"gamma": "10", "entropy_weight": 0.1})
    {'gamma': 10.0, 'entropy_weight': 0.1}
    """
    what = f"`gate_options` of the gate {name!r}"
    inner = None
    if GATES[_known(name)].inner is not None:
        inner = _known_inner(what, options.get("inner"))
    typed = typed_arguments(what, options, option_types(name, inner))
    for option, value in typed.items():
        most = LARGEST_WIDTH if isinstance(value, int) else LARGEST_COUNT
        # Also what is not a number, which no comparison holds of.
        if isinstance(value, int | float) and not abs(value) <= most:
            raise ValueError(
                f"{what}: {option} must be at most {most:,} in size. "
                f"Received: {option}={shown(value)}"
            )
    return typed


def default_options(
    name: str, k: int, given: Collection[str] = ()
) -> JsonObject:
    """Returns the options that a run has, and records, unless told otherwise.

    How wide kernels are drawn goes with gamma, of which it is a multiple: with
    another one, such as a published one, they are drawn as published.

    Args:
        name: Name of the gate, with or without a `+`.
        k: Experts per example, which `expert-choice` has on average.
        given: Names of the options that the run says itself.

    Example:
    >>> default_options("comet+", k=2)
    {'gamma': 0.03, 'entropy_weight': 0.001, 'kernel_spread': 0.3}
    >>> default_options("expert-choice", k=4)
    {'capacity_factor': 4.0}
    >>> default_options("budget", k=2)
    {'inner': 'softmax'}
    """
    options = gate_class(name).first_options(k)
    inner = GATES[_known(name)].inner
    if inner is not None:
        options["inner"] = inner
    if "gamma" in given:
        options.pop("kernel_spread", None)
    return options


def becomes_sparse(name: str) -> bool:
    """Returns whether the gate of that name has a `k` that it has to train for.

    Example:
    >>> becomes_sparse("comet"), becomes_sparse("top-k")
    (True, False)
    """
    gate = gate_class(name)
    # A budget is kept from the first batch on.
    return (
        "k" in _arguments(gate)
        and not gate.always_sparse
        and not gate.takes_budget
    )


def create_gate(
    name: str,
    num_experts: int,
    k: int,
    num_buckets: int,
    seed: int,
    options: JsonMapping,
) -> layers.Gate:
    """Creates a gate; what its constructor does not take is left out.

    Args:
        name: Name of the gate; a `+` after it changes nothing here.
        num_experts: Number of experts.
        k: Experts per example, for the gates that bound them.
        num_buckets: Number of ids, for the gates that route ids.
        seed: Seed, for the gates that would draw the same without one.
        options: As `typed_options` returns them.
    """
    around = GATES[_known(name)].inner
    if around is not None:
        inner_k = min(_largest_budget(k, options), num_experts)
        inner = create_gate(
            options.get("inner", around),
            num_experts,
            inner_k,
            num_buckets,
            seed,
            _inner_options(name, options),
        )
        return _create_around(name, inner, k, options)
    gate = gate_class(name)
    derived: JsonObject = {
        "num_experts": num_experts,
        "k": k,
        "num_buckets": num_buckets,
        "seed": seed,
    }
    taken = {key: derived[key] for key in derived if key in _arguments(gate)}
    return gate(**taken, **options)


def _create_around(
    name: str, inner: layers.Gate, k: int, options: JsonMapping
) -> layers.Gate:
    """Creates a gate around another; with a mass, it has no `k`."""
    gate = gate_class(name)
    names = _own_arguments(gate)
    outer = {key: options[key] for key in options if key in names}
    if outer.get("mass") is None:
        outer["k"] = k
    return gate(inner, **outer)


def _largest_budget(k: int, options: JsonMapping) -> int:
    """How many experts the gate inside has to give weight.

    Unless budgets are given, four times `k`: these are then up to that, or up
    to all experts where the gate inside has no bound.
    """
    budgets = options.get("train_budgets")
    return 4 * k if budgets is None else ceil(max(budgets))


def _inner_options(name: str, options: JsonMapping) -> JsonObject:
    """The options of the gate inside."""
    outer = {"inner", *_own_arguments(gate_class(name))}
    return {key: options[key] for key in options if key not in outer}


def _known(name: str) -> str:
    """The name of a gate without its `+`; ValueError if there is none."""
    gate_class(name)
    return GateChoice.parse(name).name


def _known_inner(what: str, name: Any) -> str | None:
    if name is None or name in INNER_GATES:
        return name
    raise ValueError(
        f"{what}: inner must be one of {', '.join(INNER_GATES)}"
        f"{did_you_mean(str(name), INNER_GATES)}. Received: inner={shown(name)}"
    )


def _own_arguments(gate: type[layers.Gate]) -> dict[str, object]:
    """What the constructor of a gate around another takes beside it."""
    constructor = vars(gate)["__init__"]
    hints = get_type_hints(constructor)
    names = list(inspect.signature(constructor).parameters)[1:]
    left_out = ("gate", "k", "kwargs")
    return {name: hints[name] for name in names if name not in left_out}


def _arguments(gate: type[layers.Gate]) -> dict[str, object]:
    """The arguments of a gate's constructor, with their types.

    Those that it hands on to its base classes follow its own; what it decides
    for them, such as whether it is static, is not among them.
    """
    arguments: dict[str, object] = {}
    for owner in gate.__mro__[: gate.__mro__.index(layers.Gate) + 1]:
        constructor = vars(owner).get("__init__")
        if constructor is None:
            continue
        hints = get_type_hints(constructor)
        for name in list(inspect.signature(constructor).parameters)[1:]:
            applies = owner is gate or name not in ("k", "static")
            if applies and name != "kwargs":
                arguments.setdefault(name, hints[name])
    return arguments
