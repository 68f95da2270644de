import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys.columns.kind import Declaration
from recsys.columns.kind import declared
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.features import FEATURES
from recsys.features import Id
from recsys.features.feature import FittedFeature
from recsys.models import expected_memory
from recsys.models.expected_memory import check_memory
from recsys.models.id_embedding import table_widths
from recsys.retrieval.catalogue import Catalogue
from recsys.sequences.hstu_block import HSTUBlock
from recsys.sequences.sequence_retrieval import SequenceRetrieval
from recsys.sequences.sequence_tower import SequenceTower

pytestmark = pytest.mark.once("torch")
CONFIG = ResolvedConfig.of(
    TrainConfig(
        data="d",
        out="o",
        gate="top-k",
        num_experts=3,
        k=1,
        expert_units=[4],
        head_units=[2],
        embedding_dim=5,
        batch_size=8,
        epoch_average=0.0,
        backend="torch",
    )
)
# Tables of 11 rows; width 6.
TABLE = 11 * 5 * 4
EXPERTS = 3 * (6 + 1) * 4 * 4
GATES = 2 * 6 * 2 * 4
HEADS = 2 * (4 + 1) * 2 * 4
BATCH = 8 * 6 * 2
TOTAL = 4 * (TABLE + EXPERTS + GATES + HEADS + BATCH)


def feature(declaration: Declaration) -> FittedFeature:
    fitted: FittedFeature = declared(
        declaration, FEATURES, "'features'", "user"
    ).restore({"raw_dtype": "int64"})
    return fitted


USER = feature({"type": "hash", "buckets": 10})


def check(config: ResolvedConfig = CONFIG, free: int = 0, **given: Any) -> None:
    """Checks what two tasks and 100 rows take beside so much memory."""
    features = {"user": given.pop("user", USER)}
    width = given.pop("width", 6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expected_memory, "free_memory", lambda: free)
        patch.setattr(expected_memory, "_has_accelerator", lambda _: False)
        widths = table_widths(features, config.embedding_dim)
        check_memory(config, features, widths, width, 2, 100, **given)


def test_weights_gradients_and_slots_by_hand() -> None:
    check(free=TOTAL)
    with pytest.raises(ValueError, match=r"fits into the 0.0 MiB of memory"):
        check(free=TOTAL - 1)


@pytest.mark.parametrize(
    ("changes", "saved"),
    [
        ({"optimizer": "adagrad"}, TABLE + EXPERTS + GATES + HEADS),
        ({"table_optimizer": "lazy-adam"}, TABLE),
        ({"table_optimizer": "lazy-adam", "min_table_rows": 12}, 0),
        ({"table_optimizer": "rowwise-adagrad"}, 3 * TABLE),
        ({"architecture": "moe"}, GATES // 2),
        ({"batch_size": 4}, BATCH // 2),
        # Or more: the averages.
        ({"epoch_average": 0.5}, -(TABLE + EXPERTS + GATES + HEADS)),
        ({"epoch_average": 0.5, "table_optimizer": "lazy-adam"}, TABLE),
    ],
)
def test_what_takes_less(changes: dict[str, Any], saved: int) -> None:
    # In numbers of four bytes each, of which Adam keeps four copies.
    total = TOTAL - (4 * saved if "batch_size" in changes else saved)
    if changes.get("architecture") == "moe":
        total = TOTAL - 4 * saved
    config = replace(CONFIG, **changes)
    check(config, free=total)
    with pytest.raises(ValueError, match="of memory that are free"):
        check(config, free=total - 1)


@pytest.mark.parametrize(
    ("changes", "options", "part"),
    [
        ({"embedding_dim": 10**5}, "`embedding_dim` and `buckets` of", "11 x"),
        ({"num_experts": 50_000}, "`num_experts` and `expert_units`", "50,000"),
        (
            {"expert_units": [10**5] * 2},
            "`num_experts` and `expert_",
            "experts",
        ),
        ({"head_units": [10**5]}, "`head_units` must", "2 heads"),
        (
            {"gate": "comet+", "num_experts": 5000, "expert_units": [1]},
            "`num_experts` must",
            "a permutation of 5,000",
        ),
        (
            {"gate": "x-moe", "gate_options": {"projection_dim": 10**6}},
            "`projection_dim` of the gate must",
            "gates",
        ),
        (
            {"architecture": "shared-bottom", "bottom_units": [10**6]},
            "`bottom_units` must",
            "shared bottom",
        ),
        (
            {"architecture": "ple", "num_levels": 1000, "task_experts": 1000},
            "`task_experts` and `num_levels`",
            "2,003 experts",
        ),
        (
            {"architecture": "home", "task_experts": 2000},
            "`num_experts` and `expert_units` and `task_experts`",
            "2,003 experts",
        ),
        (
            {"shared_experts": 5000},
            "`shared_experts`, `embedding_dim`, `num_experts` and",
            "5,003 experts",
        ),
        (
            {"split_experts": 1000, "expert_units": [2000, 4]},
            "`num_experts` and `expert_units`",
            "3,000 experts of [2, 4] units",
        ),
        (
            {"interaction": "dcn", "cross_layers": 1000},
            "`cross_layers` and",
            "1,000 cross layers",
        ),
    ],
)
def test_the_largest_part_is_named(
    changes: dict[str, Any], options: str, part: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(options)) as caught:
        check(replace(CONFIG, **changes), free=1000)
    assert part in str(caught.value).partition("Received: ")[2]


def test_options_of_features_are_named() -> None:
    user = feature({"type": "hash", "buckets": 10**9, "dim": 7})
    with pytest.raises(ValueError, match="`dim` of the feature 'user' in data"):
        check(user=user)
    with pytest.raises(ValueError, match="and `buckets` of the feature 'user'"):
        check(user=user)


def test_each_scenario_of_star_has_heads() -> None:
    config = replace(CONFIG, scenario_model="star")
    # Weights of three scenarios beside those that they share.
    total = TOTAL + 4 * 3 * HEADS
    check(config, free=total, num_scenarios=3)
    with pytest.raises(ValueError, match="of memory that are free"):
        check(config, free=total - 1, num_scenarios=3)
    with pytest.raises(ValueError, match="`head_units` and `scenario_model`"):
        check(config, free=1000, num_scenarios=1000)
    check(replace(config, scenario_model="pepnet"), TOTAL, num_scenarios=3)


def test_a_wide_embedding_makes_wide_experts() -> None:
    with pytest.raises(ValueError, match="`embedding_dim`, `num_experts` and"):
        check(replace(CONFIG, embedding_dim=10), width=10**6)


RETRIEVAL = replace(
    CONFIG, retrieval=True, retrieval_loss="softmax", retrieval_dim=64
)


def test_retrieval() -> None:
    catalogue = Catalogue("item", np.ones(10**6 + 1, np.int64), {}, {})
    config = replace(RETRIEVAL, retrieval_dim=10**3)
    message = "`retrieval_dim` must be .* for vectors of 1,000,000 items"
    with pytest.raises(ValueError, match=message):
        check(config, free=10**6, catalogue=catalogue)


def test_a_sequence_tower() -> None:
    dim, blocks = 8, [HSTUBlock(length=3), HSTUBlock(length=3)]
    towers = SequenceRetrieval(
        "item",
        ["genres"],
        99,
        {"genres": ([], "int32")},
        "history",
        SequenceTower(blocks, length=3),
        num_ids={"genres": 7},
        num_user_ids={"country": 20},
        dim=dim,
    )
    # Weights, gradients and two moments of 100, 7 and 20 vectors.
    of_tower = 4 * 4 * ((100 + 7 + 20) * dim + 2 * 4 * dim**2)
    catalogue = Catalogue("item", np.ones(100, np.int64), {}, {})
    given: dict[str, Any] = {"catalogue": catalogue, "towers": towers}
    check(RETRIEVAL, TOTAL + of_tower, **given)
    message = (
        "`tower_width` must be .* the tower's vectors of 100 ids of 'item'"
    )
    with pytest.raises(ValueError, match=message):
        check(RETRIEVAL, TOTAL + of_tower - 1, **given)
    towers.dim = 10**3
    message = (
        "`tower_width` and `tower_blocks` must .* of 2 blocks of width 1,000"
    )
    with pytest.raises(ValueError, match=message):
        check(RETRIEVAL, **given)


def test_free_vectors_take_what_tables_do() -> None:
    catalogue = Catalogue("item", np.ones(2, np.int64), {}, {})
    config = replace(RETRIEVAL, retrieval_dim=10**3)
    user = Id().fit([pd.Series(range(10**5))])
    message = (
        r"`retrieval_dim` must be .* Received: at least 1\.5 GiB, 1\.5 GiB of "
        "it for free vectors of 100,001 ids of 'user'"
    )
    with pytest.raises(ValueError, match=message):
        check(config, free=10**9, catalogue=catalogue, free_ids={"user": user})


def test_users_are_compared_with_all_items_by_the_few() -> None:
    catalogue = Catalogue("item", np.ones(50_001, np.int64), {}, {})
    full = replace(RETRIEVAL, retrieval_loss="full-softmax", batch_size=512)
    full = replace(full, retrieval_dim=1)
    message = "of it for the scores of 50,000 items for 100 queries"
    with pytest.raises(ValueError, match=message):
        check(full, free=10**6, catalogue=catalogue)
    users = replace(full, select="parts")
    with pytest.raises(ValueError, match="50,000 items for 32 queries"):
        check(users, free=10**6, catalogue=catalogue)


def test_devices_that_share_the_work_are_not_judged() -> None:
    check(replace(CONFIG, distribute="data"), free=0)
