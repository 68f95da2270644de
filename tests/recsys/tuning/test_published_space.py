"""The published ranges, written out once more from the papers."""

from typing import Any

import pytest

from recsys import TrainConfig
from recsys.config.gate_names import GATES
from recsys.config.presets import PRESETS
from recsys.config.resolved_config import ResolvedConfig
from recsys.models.gates import default_options
from recsys.tuning.papers import comet
from recsys.tuning.parse_space import parse_space
from recsys.tuning.published_space import published_space

pytestmark = pytest.mark.once("torch")

# COMET, S1.3: learning rates, batch size, epochs, n, k.
COMET = {
    "movielens-1m": (5e-5, 5e-4, 512, 100, 16, 2),
    "books": (5e-5, 5e-4, 2048, 100, 9, 4),
    "jester": (5e-5, 5e-4, 2048, 100, 16, 2),
    "digits": (1e-5, 5e-4, 512, 200, 8, 2),
    "multi-mnist": (1e-4, 1e-3, 512, 200, 16, 4),
    "multi-fashion-mnist": (1e-4, 1e-3, 512, 200, 5, 2),
    "celeba": (1e-4, 1e-3, 512, 100, 6, 2),
}
# MOESART, S6.3: the same.
MOESART = {
    "movielens-1m": (5e-5, 5e-4, 512, 100, 16, 2),
    "books": (5e-5, 5e-4, 2048, 100, 9, 4),
    "multi-mnist": (1e-4, 1e-3, 512, 200, 8, 4),
    "multi-fashion-mnist": (1e-4, 1e-3, 512, 200, 5, 2),
}
TABLES = ("movielens-1m", "books", "jester")
MOESART_GATES = [
    *("softmax", "top-k", "v-moe", "switch", "expert-choice", "x-moe"),
    *("moesart", "dselect-k", "comet"),
]
# Table 3, and table 2 beside it.
COMET_GATES = ["softmax", "top-k", "top-k+", "dselect-k", "comet", "comet+"]
COMET_GATES_ON_IDS = [*COMET_GATES, "hash", "hash+"]
SVHN_GATES = ["softmax", "top-k", "moesart"]
DSELECT_K_GATES = ["softmax", "top-k", "gumbel-softmax", "dselect-k"]
# COMET, S1.3: gamma; gamma of COMET+; entropy.
GAMMA = {
    "movielens-1m": ([0.01, 0.1, 1, 5, 10], 10),
    "books": ([0.1, 0.5, 1, 5, 10], 0.5),
    "jester": ([0.001, 0.02, 0.1, 1, 5, 10], 0.01),
    "digits": ([0.001, 0.01, 0.1, 1], 0.001),
    "multi-mnist": ([0.001, 0.01, 0.1, 1, 5, 10], 0.01),
    "multi-fashion-mnist": ([0.001, 0.01, 0.1, 1, 5], 0.01),
    "celeba": ([0.001, 0.01, 0.1, 1, 5], 5),
}
ENTROPY = {
    "movielens-1m": [0.05, 0.1, 0.5, 1, 5, 10],
    "books": [1, 5, 10, 50, 100],
    "jester": [0.05, 0.1, 0.5, 1, 5, 10],
    "digits": [0.001, 0.005, 0.01, 0.05, 0.1, 0.5],
    "multi-mnist": [0.0001, 0.001, 0.01, 0.1, 1, 5, 10],
    "multi-fashion-mnist": [0.001, 0.01, 0.1, 1, 5],
    "celeba": [0.001, 0.01, 0.1, 1, 5],
}


def training(
    row: tuple[float, float, int, int, int, int], data_set: str
) -> dict[str, Any]:
    low, high, batch_size, epochs, num_experts, k = row
    narrow = {
        "embedding_dim": [64],
        "expert_units": [[128]],
        "head_units": [[256]],
    }
    of_ids = {"preset": ["movielens"], "unknown_rate": [0.0]}
    return {
        "learning_rate": {"min": low, "max": high, "sampling": "log"},
        "batch_size": [batch_size],
        "epochs": [epochs],
        "patience": [25],
        "num_experts": [num_experts],
        "k": [k],
        **(narrow if data_set in ("books", "jester") else {}),
        **(of_ids if data_set in TABLES else {}),
    }


LOCAL_SEARCH = {
    "search_epochs": list(range(1, 11)),
    "search_entropy_weight": [1e-4],
}


@pytest.mark.parametrize("data_set", COMET)
def test_comet_paper(data_set: str) -> None:
    common = training(COMET[data_set], data_set)
    if data_set == "movielens-1m":  # Of the published code.
        common["shuffle_buffer"] = [1024]
    gamma, gamma_with_search = GAMMA[data_set]
    own = {"gamma": gamma, "entropy_weight": ENTROPY[data_set]}

    def space(gate: str) -> dict[str, Any]:
        return published_space(gate, data_set, "comet")

    assert space("softmax") == common
    assert space("top-k") == common
    assert space("top-k+") == {**common, **LOCAL_SEARCH}
    if data_set in TABLES:
        assert space("hash+") == {**common, **LOCAL_SEARCH}
    assert space("comet") == {**common, "gate_options": own}
    # n is a power of 2 but on three of them; their codes without an expert
    # are kept away from as in the published code, with a sum over the batch.
    penalty = {
        "unreachable": ["penalty"],
        "unreachable_weight": common["batch_size"],
    }
    odd = data_set in ("books", "multi-fashion-mnist", "celeba")
    expected = {**own, **penalty} if odd else own
    assert space("dselect-k") == {**common, "gate_options": expected}
    assert space("comet+") == {
        **common,
        **LOCAL_SEARCH,
        "gate_options": {**own, "gamma": [gamma_with_search]},
    }


@pytest.mark.parametrize("data_set", MOESART)
@pytest.mark.parametrize("gate", MOESART_GATES)
def test_moesart_paper(gate: str, data_set: str) -> None:
    space = published_space(gate, data_set, "moesart")
    options = space.pop("gate_options", None)
    assert space == training(MOESART[data_set], data_set)
    weights = [0.0, 0.01, 0.1, 1, 10]
    if gate == "moesart":
        assert options == {"trimmed_lasso_weight": weights}
    elif gate in ("dselect-k", "comet"):  # Table S4 does not say how.
        published = published_space(gate, data_set, "comet")
        assert options == published["gate_options"]
    else:
        assert options is None


@pytest.mark.parametrize("gate", SVHN_GATES)
def test_moesart_paper_trains_once_on_svhn(gate: str) -> None:
    space = published_space(gate, "svhn", "moesart")
    options = space.pop("gate_options", None)
    assert space == {
        "learning_rate": [1e-4],
        "batch_size": [512],
        "epochs": [250],
        "patience": [50],
        "num_experts": [8],
        "k": [2],
    }
    assert options == (
        {"trimmed_lasso_weight": [0.0]} if gate == "moesart" else None
    )


def test_dselect_k_paper_on_movielens() -> None:
    common = {
        "optimizer": ["adagrad"],
        "learning_rate": [0.001, 0.01, 0.1, 0.2, 0.3],
        "batch_size": [128],
        "epochs": [5, 10, 20, 30, 40, 50],
        "patience": [50],
        "num_experts": [8],
        "preset": ["movielens"],
        "unknown_rate": [0.0],
    }

    def space(gate: str, **given: Any) -> dict[str, Any]:
        return published_space(gate, "movielens-1m", "dselect-k", given)

    assert space("softmax") == common
    assert space("top-k") == {**common, "k": [2, 4]}
    # Lambda is 0.1, 1 or 10, of a sum over the 128 examples of a batch.
    own = {"gamma": [1, 10], "entropy_weight": [12.8, 128, 1280]}
    assert space("dselect-k") == {**common, "k": [2, 4], "gate_options": own}
    static = {**own, "entropy_weight": [0.1, 1, 10]}
    assert space("dselect-k", gate_options={"static": True}) == {
        **common,
        "k": [2, 4],
        "gate_options": static,
    }
    smaller = {**own, "entropy_weight": [6.4, 64, 640]}
    chosen = space("dselect-k", batch_size=64)
    assert chosen["gate_options"] == smaller
    weights = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10]
    assert space("gumbel-softmax") == {
        **common,
        "gate_options": {"sparsity_weight": weights},
    }
    bottom = space("comet", architecture="shared-bottom")
    units = {"bottom_units": [[32], [256], [2048], [4096], [8192]]}
    del common["num_experts"]
    assert bottom == {**common, **units}


@pytest.mark.parametrize("data_set", ["multi-mnist", "multi-fashion-mnist"])
def test_dselect_k_paper_on_images(data_set: str) -> None:
    common = {
        "learning_rate": [0.01, 0.001, 0.0001, 0.00001],
        "batch_size": [256],
        "epochs": [25, 50, 75, 100],
        "patience": [100],
        "num_experts": [8],
        "expert_units": [[50], [50, 50, 50], [50, 50, 50, 50, 50]],
    }

    def space(gate: str) -> dict[str, Any]:
        return published_space(gate, data_set, "dselect-k")

    assert space("softmax") == common
    assert space("top-k") == {**common, "k": [2, 4]}
    # D.2 has no lambda.
    own = {"gamma": [0.1, 1, 10], "entropy_weight": [0.0]}
    assert space("dselect-k") == {**common, "k": [2, 4], "gate_options": own}
    weights = [0, 1e-3, 1e-2, 0.1, 1, 10, 1000]
    assert space("gumbel-softmax") == {
        **common,
        "gate_options": {"sparsity_weight": weights},
    }


@pytest.mark.parametrize("data_set", [*COMET, "svhn"])
def test_all_gates_are_trained_alike(data_set: str) -> None:
    """Unless a paper is named: as in MOESART's, or else in COMET's."""
    own = ("gate_options", *LOCAL_SEARCH)
    row = MOESART.get(data_set) or COMET.get(data_set)
    for gate in [*GATES, *(f"{gate}+" for gate in GATES)]:
        space = published_space(gate, data_set)
        common = {name: space[name] for name in space if name not in own}
        if row:
            assert common == training(row, data_set)
        else:
            assert (common["num_experts"], common["epochs"]) == ([8], [250])
        assert (space.keys() >= LOCAL_SEARCH.keys()) == gate.endswith("+")


@pytest.mark.parametrize(
    ("paper", "gates", "data_sets"),
    [
        ("comet", COMET_GATES_ON_IDS, list(TABLES)),
        ("comet", COMET_GATES, [name for name in COMET if name not in TABLES]),
        ("moesart", MOESART_GATES, list(MOESART)),
        ("moesart", SVHN_GATES, ["svhn"]),
        (
            "dselect-k",
            DSELECT_K_GATES,
            ["movielens-1m", "multi-mnist", "multi-fashion-mnist"],
        ),
    ],
)
def test_a_paper_has_its_gates_on_a_data_set_and_no_others(
    paper: str, gates: list[str], data_sets: list[str]
) -> None:
    for gate in [*GATES, *(f"{gate}+" for gate in GATES)]:
        for data_set in data_sets:
            if gate in gates:
                space = published_space(gate, data_set, paper)
                parse_space(space, {"gate": gate})
                continue
            with pytest.raises(ValueError, match="`paper` must be one with"):
                published_space(gate, data_set, paper)


@pytest.mark.parametrize(
    ("paper", "data_sets"),
    [
        ("comet", ["svhn", "my-logs"]),
        ("moesart", ["jester", "digits", "celeba", "my-logs"]),
        ("dselect-k", ["books", "jester", "digits", "celeba", "svhn"]),
    ],
)
def test_a_paper_has_no_other_data_sets(
    paper: str, data_sets: list[str]
) -> None:
    for data_set in data_sets:
        with pytest.raises(ValueError, match="`paper` must be one with"):
            published_space("top-k", data_set, paper)


def test_error_names_the_papers_that_there_are() -> None:
    with pytest.raises(ValueError, match="`paper`") as caught:
        published_space("moesart", "multi-mnist", "comet")
    assert str(caught.value) == (
        "`paper` must be one with the gate 'moesart' and the data set "
        "'multi-mnist': moesart. Received: paper='comet'"
    )


@pytest.mark.parametrize(
    ("num_experts", "options"), [(8, set()), (9, {"unreachable"})]
)
def test_codes_without_expert_follow_from_the_number_that_is_given(
    num_experts: int, options: set[str]
) -> None:
    given = {"num_experts": num_experts}
    for data_set in ("books", "movielens-1m"):
        space = published_space("dselect-k", data_set, given=given)
        assert space["gate_options"].keys() & {"unreachable"} == options


@pytest.mark.parametrize("data_set", ["books", "svhn", "my-logs"])
def test_a_shared_bottom_has_no_gate_to_search(data_set: str) -> None:
    given = {"architecture": "shared-bottom"}
    space = published_space("comet+", data_set, given=given)
    assert "learning_rate" in space
    own = {"gate_options", "num_experts", "k", "search_epochs"}
    assert not space.keys() & own


@pytest.mark.parametrize("gate", ["top-k", "comet", "comet+", "moesart"])
def test_other_data_sets_have_a_small_budget(gate: str) -> None:
    space = published_space(gate, "my-logs")
    published = published_space(gate, "movielens-1m")
    if gate.startswith("comet"):
        # Narrow enough to be sparse in so few epochs.
        gammas = space["gate_options"]["gamma"]
        assert max(gammas) < min(comet.PUBLISHED["movielens-1m"].gamma)
        assert max(gammas) < default_options("comet", 2)["gamma"]
        assert min(space["gate_options"]["entropy_weight"]) > 0
    else:
        assert space.get("gate_options") == published.get("gate_options")
    # What a training has unless it is told otherwise, or twice that.
    defaults = ResolvedConfig.of(TrainConfig(data="my-logs", out="run"))
    assert space["epochs"] == [2 * defaults.epochs]
    assert space["patience"] == [defaults.patience]
    assert max(space.get("search_epochs", [0])) <= space["epochs"][0] / 4
    rates = space["learning_rate"]
    assert rates["min"] < PRESETS["compact"].learning_rate < rates["max"]
    # The model has the sizes of its preset.
    assert "num_experts" in published
    assert "num_experts" not in space


@pytest.mark.parametrize("gate", [*GATES, *(f"{gate}+" for gate in GATES)])
def test_every_gate_has_a_space_that_can_be_read(gate: str) -> None:
    space = parse_space(published_space(gate, "books"), {"gate": gate})
    assert "learning_rate" in space.searched
    assert ("search_epochs" in space.searched) == gate.endswith("+")
