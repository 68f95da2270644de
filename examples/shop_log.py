"""The log of a shop, generated: what `a_week.py` trains and judges models on.

A request shows five items, the cheapest ones first as a rule. Whoever sees an
item may click it, and whoever has clicked may buy; lower places are seen less
often. From day to day items and users come and go, and tastes change.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

SCHEMA = {
    "name": "shop",
    "features": {
        "user": "id",
        "country": "id",
        "item": "id",
        "category": "id",
        "price": "number",
    },
    "tasks": {"click": "binary", "buy": {"type": "binary", "after": "click"}},
    "user": "user",
    "position": "place",
    "time": "time",
}
# The chance that a place is seen, which no log has.
SEEN = np.array([1.0, 0.65, 0.45, 0.35, 0.3])
COUNTRIES, CATEGORIES = 6, 12
EVENING = 20  # Its first hour.
FIRST_ITEM = 2**60  # Ids of items are larger than a float can hold.


@dataclass(frozen=True)
class Shop:
    """The size of the shop and what happens to it.

    Attributes:
        requests: How many requests of a day are logged, of five rows each.
        judged: How many further ones there are in the evening, in which the
            items are shown in random order: of these, only the first place is
            logged, which everybody sees.
        users: How many there are on a day. A twentieth leaves with the day.
        items: The same of items.
        memory: Correlation of tastes with those of the day before.
        seed: Draws everything.
    """

    requests: int = 8_000
    judged: int = 6_000
    users: int = 1_000
    items: int = 300
    memory: float = 0.7
    seed: int = 0

    def write_day(self, folder: Path, day: int, broken: bool) -> None:
        """Writes a day as a data folder.

        Args:
            folder: A new folder.
            day: 1 for the first day.
            broken: Whether prices are in cents until a correction in the
                evening.
        """
        generator = np.random.default_rng([self.seed, 0, day])
        logged = self._shown(day, self.requests, False, generator)
        judged = self._shown(day, self.judged, True, generator)
        judged = judged[judged["place"] == 1]
        if broken:
            logged["price"] *= 100
        # The last eighth of the requests says when training is to stop.
        last = len(logged) // 8 // len(SEEN) * len(SEEN)
        folder.mkdir(parents=True)
        (folder / "dataset.json").write_text(json.dumps(SCHEMA, indent=2))
        for split, rows in {
            "train": logged[:-last],
            "validation": logged[-last:],
            "test": judged,
        }.items():
            rows.to_parquet(folder / f"{split}.parquet", index=False)

    def _shown(
        self,
        day: int,
        requests: int,
        evening: bool,
        generator: np.random.Generator,
    ) -> pd.DataFrame:
        """Rows of requests, five for each, in the order shown."""
        size = (requests, len(SEEN))
        user = self._ids(day, self.users, (requests, 1), generator)
        item = self._ids(day, self.items, size, generator)
        price = 20 * np.exp(self._trait(0, item))
        order = np.log(price) + generator.normal(scale=1.0, size=size)
        if evening:
            order = generator.random(size)
        places = np.argsort(order, axis=1)
        item = np.take_along_axis(item, places, axis=1)
        price = np.take_along_axis(price, places, axis=1)
        country, category = user % COUNTRIES, item % CATEGORIES
        liking = self._tastes(day)[country, category]
        liking = liking + (self._trait(1, user) + self._trait(2, item)) / 3
        liking = liking - np.log(price / 20) / 2
        seen = generator.random(size) < SEEN
        click = seen & (generator.random(size) < sigmoid(liking - 0.5))
        bought = sigmoid(liking)
        buy = click & (generator.random(size) < bought)
        hours = (EVENING, 24) if evening else (0, EVENING)
        hour = np.sort(generator.uniform(*hours, (requests, 1)), axis=0)
        moment = pd.Timestamp("2026-03-01") + pd.to_timedelta(
            (24 * (day - 1) + hour).ravel(), "h"
        )
        columns = {
            "time": moment.to_numpy()[:, None],
            "user": np.char.add("u", user.astype(str)),
            "country": np.array(["AT", "BE", "CH", "DE", "FR", "IT"])[country],
            "item": FIRST_ITEM + item,
            "category": category,
            "price": price.round(2),
            "place": np.arange(1, len(SEEN) + 1),
            "click": click.astype(int),
            "buy": buy.astype(int),
        }
        return pd.DataFrame(
            {
                name: np.broadcast_to(values, size).ravel()
                for name, values in columns.items()
            }
        )

    def _ids(
        self,
        day: int,
        number: int,
        size: tuple[int, int],
        generator: np.random.Generator,
    ) -> np.ndarray:
        """Numbers of those who are there on a day, some more often."""
        ranks = number * generator.random(size) ** 2
        return day * number // 20 + ranks.astype(np.int64)

    def _trait(self, which: int, numbers: np.ndarray) -> np.ndarray:
        """What is the same every day of an item or a user, of variance 1."""
        most = 10 * (self.users + self.items)
        drawn = np.random.default_rng([self.seed, 1, which]).normal(size=most)
        return drawn[numbers]

    def _tastes(self, day: int) -> np.ndarray:
        """How much each country likes each category, of variance 1."""
        size = (COUNTRIES, CATEGORIES)
        tastes = np.random.default_rng([self.seed, 2, 0]).normal(size=size)
        for past in range(1, day):
            change = np.random.default_rng([self.seed, 2, past])
            tastes *= self.memory
            tastes += np.sqrt(1 - self.memory**2) * change.normal(size=size)
        return tastes


def sigmoid(logits: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-logits))
