import numpy as np
import pandas as pd

from recsys.data.dataset import Dataset
from recsys.data.schema import Schema
from recsys.data.splitting import split_rows

NUM_FACTORS = 8  # Latent factors of an item.
WIDTH = 16  # Hidden units of a latent expert.
COMMON = 0.2  # Share of a taste's variance that all groups have in common.
RELATED = 0.8  # Correlation of what a user watches and what a user likes.
STEEPNESS = 5.0  # How surely a user watches what appeals.
GENEROSITY = 0.3  # Standard deviation of the users' own levels.
NOISE = 0.4  # Standard deviation of a rating before rounding.


def synthetic(
    num_rows: int = 200_000,
    num_users: int = 2_000,
    num_items: int = 1_000,
    num_groups: int = 8,
    seed: int = 0,
) -> Dataset:
    """Generates interactions in which groups of users have their own tastes.

    Every group g has two latent experts, random one-layer tanh networks f_g
    and h_g of the factors z_i of an item, with mean 0 and variance 1 over the
    items; f_0 belongs to all groups. For user u of group g and item i:

    * appeal = √0.2 · f_0(z_i) + √0.8 · f_g(z_i)
    * quality = 0.8 · appeal + 0.6 · h_g(z_i)
    * P(watch) = sigmoid(5 · appeal + b_u)
    * rating = 3 + quality + b_u + N(0, 0.4²), rounded and cut to 1..5, known
      only where watched

    with b_u ~ N(0, 0.3²). A user's age tells the group, but for some overlap
    of neighbours. (user, item) pairs are distinct, users and items long-tailed
    (Zipf-Mandelbrot: probability ~ 1 / (rank + size / 30) before repeated
    pairs are drawn anew).

    Since the taste changes with the group as a whole, a gate that looks at the
    user pays: experts of one hidden layer need one f_g each, where a shared
    layer has to hold the product of all groups and all tastes.

    Args:
        num_rows: Number of interactions, at most half of all pairs. 78.75 %
            are for training, 11.25 % for validation, 10 % for test.
        num_users: Number of users; their ids are 0 to `num_users` - 1.
        num_items: Number of items, at least 2; ids as above.
        num_groups: Number of user groups, at most `num_users`.
        seed: Seed of everything that is drawn, not negative.

    Returns:
        Features user (id), item (id) and age (number), tasks watch (binary)
        and rating (regression). `planted_groups` tells each user's group.

    Raises:
        ValueError: An argument is outside its bounds.

    Example:
    >>> dataset = synthetic(num_rows=400, num_users=50, num_items=40)
    >>> len(dataset.split("train"))
    315

    References:
        Ma, Zhao, Yi, Chen, Hong, Chi. Modeling Task Relationships in
        Multi-task Learning with Multi-gate Mixture-of-Experts. KDD 2018,
        section 3.2 (regression tasks with a planted correlation).
    """
    _check(num_rows, num_users, num_items, num_groups, seed)
    groups = planted_groups(num_users, num_groups, seed)
    generator = np.random.default_rng((seed, 1))
    users, items = _pairs(num_rows, num_users, num_items, generator)
    appeal, quality = _tastes(num_items, num_groups, generator)
    taste = groups[users], items
    level = generator.normal(scale=GENEROSITY, size=num_users)[users]
    probability = 1 / (1 + np.exp(-STEEPNESS * appeal[taste] - level))
    watched = generator.random(num_rows) < probability
    liked = generator.normal(3 + quality[taste] + level, NOISE)
    rows = pd.DataFrame(
        {
            "user": users,
            "item": items,
            "age": _ages(groups, num_groups, generator)[users],
            "watch": watched.astype("float64"),
            "rating": np.where(watched, np.clip(liked.round(), 1, 5), np.nan),
        }
    )
    schema = Schema(
        "synthetic",
        {"user": "id", "item": "id", "age": "number"},
        {"watch": "binary", "rating": "regression"},
    )
    splits = split_rows(rows, "watch", 0.1, 0.125, seed, "synthetic")
    return Dataset(schema, splits)


def planted_groups(
    num_users: int = 2_000, num_groups: int = 8, seed: int = 0
) -> np.ndarray:
    """Returns the group of each user of the synthetic data set.

    Args:
        num_users: Number of users.
        num_groups: Number of user groups.
        seed: Seed of the data set.

    Returns:
        Integers in `[0, num_groups)`, shape `(num_users,)`: entry u is the
        group of the user with id u. Groups differ in size by at most 1.

    Example:
    >>> sorted(planted_groups(num_users=7, num_groups=3).tolist())
    [0, 0, 0, 1, 1, 2, 2]
    """
    generator = np.random.default_rng((seed, 0))
    return generator.permutation(np.arange(num_users) % num_groups)


def _pairs(
    size: int, num_users: int, num_items: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draws distinct (user, item) pairs, repeated ones anew."""
    user_share = _long_tail(num_users, generator)
    item_share = _long_tail(num_items, generator)
    pairs = np.empty(0, np.int64)
    while len(pairs) < size:
        users = generator.choice(num_users, size, p=user_share)
        items = generator.choice(num_items, size, p=item_share)
        pairs = pd.unique(np.append(pairs, users * num_items + items))
    users, items = np.divmod(pairs[:size], num_items)
    return users, items


def _long_tail(size: int, generator: np.random.Generator) -> np.ndarray:
    weights = 1 / (np.arange(1, size + 1) + size / 30)
    return generator.permutation(weights / weights.sum())


def _tastes(
    num_items: int, num_groups: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Returns appeal and quality, each of shape (groups, items)."""
    experts = 1 + 2 * num_groups
    factors = generator.normal(size=(num_items, NUM_FACTORS))
    hidden = generator.normal(size=(experts, NUM_FACTORS, WIDTH))
    bias = generator.normal(size=(experts, 1, WIDTH))
    output = generator.normal(size=(experts, WIDTH, 1))
    values = (np.tanh(factors @ hidden + bias) @ output)[..., 0]
    values -= values.mean(axis=1, keepdims=True)
    values /= values.std(axis=1, keepdims=True)
    watching, liking = values[1 : num_groups + 1], values[num_groups + 1 :]
    appeal = np.sqrt(COMMON) * values[0] + np.sqrt(1 - COMMON) * watching
    quality = RELATED * appeal + np.sqrt(1 - RELATED**2) * liking
    return appeal, quality


def _ages(
    groups: np.ndarray, num_groups: int, generator: np.random.Generator
) -> np.ndarray:
    """Bands of equal width from 15 to 75, one a group, normal within."""
    band = 60 / num_groups
    return generator.normal(15 + band * (groups + 0.5), band / 4).round(1)


def _check(
    num_rows: int, num_users: int, num_items: int, num_groups: int, seed: int
) -> None:
    if seed < 0:
        raise ValueError(f"`seed` must not be negative. Received: seed={seed}")
    if not 1 <= num_groups <= num_users:
        raise ValueError(
            "`num_groups` must be between 1 and `num_users`. Received: "
            f"num_groups={num_groups}, num_users={num_users}"
        )
    if num_items < 2:
        raise ValueError(
            f"`num_items` must be at least 2. Received: num_items={num_items}"
        )
    if not 1 <= num_rows <= num_users * num_items // 2:
        raise ValueError(
            "`num_rows` must be between 1 and half of all (user, item) pairs. "
            f"Received: num_rows={num_rows} of {num_users * num_items} pairs"
        )
