from collections.abc import Mapping

from recsys.config.gate_names import GateChoice
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.tuning.papers import comet
from recsys.tuning.papers import dselect_k
from recsys.tuning.papers import moesart
from recsys.tuning.papers.published import Published

# By default, a data set has the space of the first of these papers that uses
# it, for every gate: MOESART's compares the most of them.
_PUBLISHED: dict[str, Mapping[str, Published]] = {
    "moesart": moesart.PUBLISHED,
    "comet": comet.PUBLISHED,
    "dselect-k": dselect_k.PUBLISHED,
}

_IMAGES = ("digits", "multi-mnist", "multi-fashion-mnist", "celeba", "svhn")

# The search space for data in no paper, for minutes rather than days. The
# papers give a trial 100 epochs or more, and stop it after 25 without a better
# validation loss. 20 epochs, and 3 without a better loss, are the defaults of a
# training of `recsys`, or twice these; learning rates up to 3e-3, 6 times those
# of the papers, reach their best loss in as many. The sizes of the model keep
# their defaults.
_FIRST_TRAINING: JsonObject = {
    "learning_rate": {"min": 1e-4, "max": 3e-3, "sampling": "log"},
    "epochs": [20],
    "patience": [3],
}

# Of every gate with permutation local search: a quarter of the epochs at most.
_FIRST_LOCAL_SEARCH: JsonObject = {
    "search_epochs": [1, 2, 3, 4, 5],
    "search_entropy_weight": [1e-4],
}

# Of COMET and DSelect-k. A selector is binary once its logit is beyond
# gamma / 2, the narrower the sooner: after some hundred steps, few rows are
# undecided. The published values are for 100 epochs and more, and a trial
# that stays dense does not count: benchmarks/README.md, "A first search that
# counts".
_FIRST_SMOOTH_STEPS: JsonObject = {
    "gamma": [1e-4, 3e-4, 1e-3],
    "entropy_weight": [0.1, 1.0, 10.0],
}


def published_space(
    gate: str,
    data_set: str,
    paper: str | None = None,
    given: JsonMapping | None = None,
) -> JsonObject:
    """Returns the search space that is published for a gate and a data set.

    Gates without hyperparameters of their own in the papers are tuned over
    the optimizer's alone. All gates have the same number of experts and the
    same training on a data set, so that they can be compared: unless a paper
    is named, those of MOESART, or of COMET where it does not have the data.
    The gates' own hyperparameters are then those of the paper that has them.

    Args:
        gate: Name of the gate, with or without a `+`.
        data_set: Name of the data set in `dataset.json`. One that is in no
            paper is searched for minutes rather than days, other
            hyperparameters of the gates as on MovieLens.
        paper: `"comet"`, `"moesart"` or `"dselect-k"`, to search as it does.
            Defaults to `None`, as above.
        given: Fields of `TrainConfig` that are not searched, by name. What is
            published for other fields may depend on them: the weight of a sum
            over the batch, for one. A shared bottom has no gate.

    Returns:
        What `recsys.tuning.parse_space` reads.

    Raises:
        ValueError: The paper does not have the gate and the data set.

    Example:
    >>> published_space("moesart", "books")["gate_options"]
    {'trimmed_lasso_weight': [0.0, 0.01, 0.1, 1.0, 10.0]}
    >>> for paper in ("comet", "moesart", "dselect-k"):
    ...     print(published_space("top-k", "multi-mnist", paper)["num_experts"])
    [16]
    [8]
    [8]

    References:
        Ibrahim et al., COMET, KDD 2023, supplement S1.3.
        Ibrahim et al., MOESART, supplement S6.3.
        Hazimeh et al., DSelect-k, NeurIPS 2021, appendix D.
    """
    given = given or {}
    bottom = given.get("architecture") == "shared-bottom"
    if paper is not None:
        _check_paper(paper, None if bottom else gate, data_set)
    published = _published(data_set, paper)
    space = dict(published.training if published else _FIRST_TRAINING)
    if bottom:
        return _shared_bottom(space, published)
    if isinstance(published, dselect_k.Published):
        space |= published.gate_fields(gate)
    choice = GateChoice.parse(gate)
    options = _gate_options(choice, data_set, published, given)
    if options:
        space["gate_options"] = options
    if choice.searched:
        space |= comet.LOCAL_SEARCH if published else _FIRST_LOCAL_SEARCH
    return space


def _check_paper(paper: str, gate: str | None, data_set: str) -> None:
    having = [
        name
        for name, data_sets in _PUBLISHED.items()
        if data_set in data_sets and gate in (None, *data_sets[data_set].gates)
    ]
    if paper not in having:
        what = "a shared bottom" if gate is None else f"the gate {gate!r}"
        raise ValueError(
            f"`paper` must be one with {what} and the data set "
            f"{data_set!r}: {', '.join(having) or 'there is none'}. "
            f"Received: paper={paper!r}"
        )


def _published(data_set: str, paper: str | None) -> Published | None:
    for name in _PUBLISHED if paper is None else (paper,):
        if data_set in _PUBLISHED[name]:
            return _PUBLISHED[name][data_set]
    return None


def _shared_bottom(
    training: JsonMapping, published: Published | None
) -> JsonObject:
    """The same without experts and gate."""
    space = {
        name: training[name]
        for name in training
        if name not in ("num_experts", "k")
    }
    if isinstance(published, dselect_k.Published):
        space |= published.shared_bottom
    return space


def _gate_options(
    gate: GateChoice,
    data_set: str,
    published: Published | None,
    given: JsonMapping,
) -> JsonObject:
    if gate.name == "moesart":
        weights = moesart.trimmed_lasso_weight(data_set)
        return {"trimmed_lasso_weight": weights}
    if gate.name == "gumbel-softmax":
        images = data_set in _IMAGES
        weights = dselect_k.sparsity_weight(data_set, images)
        return {"sparsity_weight": weights}
    if gate.name == "comet":
        return _smooth_steps(gate, data_set, published)
    if gate.name == "dselect-k":
        return _dselect_k_options(gate, data_set, published, given)
    return {}


def _smooth_steps(
    gate: GateChoice, data_set: str, published: Published | None
) -> JsonObject:
    """The COMET paper's values for COMET and DSelect-k; none for SVHN."""
    if published is None:
        return dict(_FIRST_SMOOTH_STEPS)
    values = comet.PUBLISHED.get(data_set)
    if values is None:
        return {}
    with_search = gate == GateChoice("comet", searched=True)
    return {
        "gamma": [values.gamma_with_search] if with_search else values.gamma,
        "entropy_weight": values.entropy_weight,
    }


def _dselect_k_options(
    gate: GateChoice,
    data_set: str,
    published: Published | None,
    given: JsonMapping,
) -> JsonObject:
    options = _smooth_steps(gate, data_set, published)
    if published is None:
        return options
    static = bool(given.get("gate_options", {}).get("static", False))
    batch_size = given.get("batch_size", published.batch_size)
    if isinstance(published, dselect_k.Published):
        options = {
            "gamma": published.gamma,
            "entropy_weight": [
                dselect_k.batch_sum(weight, batch_size, static)
                for weight in published.entropy_weight
            ],
        }
    num_experts = given.get("num_experts") or published.num_experts
    return options | dselect_k.unreachable(num_experts, batch_size, static)
