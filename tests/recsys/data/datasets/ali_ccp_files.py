"""Small files in the form of the published Ali-CCP."""

from pathlib import Path

import numpy as np

from recsys.data.datasets.ali_ccp import ONE_ID
from recsys.data.datasets.ali_ccp import WEIGHTED

_COMMON = [field for field in ONE_ID + WEIGHTED if field.startswith("1")]
_OWN = [field for field in ONE_ID + WEIGHTED if not field.startswith("1")]


def features(triples: list[tuple[str, int, float]]) -> str:
    """How many features, and the features, as a line has them."""
    texts = [f"{field}\x02{id}\x03{weight}" for field, id, weight in triples]
    return f"{len(texts)},{chr(1).join(texts)}"


def _drawn(fields: list[str], rng: np.random.Generator) -> str:
    return features(
        [
            (field, int(id), 1.0 if field in ONE_ID else round(rng.random(), 5))
            for field in fields
            for id in rng.integers(
                0, 9, 1 if field in ONE_ID else rng.integers(0, 4)
            )
        ]
    )


def write_ali_ccp(folder: Path, train: int, test: int) -> None:
    rng = np.random.default_rng(0)
    for part, count in (("train", train), ("test", test)):
        users = [f"{user:016x}" for user in range(5)]
        common = [f"{user},{_drawn(_COMMON, rng)}\n" for user in users]
        (folder / f"common_features_{part}.csv").write_text("".join(common))
        lines = []
        for number in range(1, count + 1):
            click = int(rng.random() < 0.5)
            conversion = int(click and rng.random() < 0.5)
            user = users[rng.integers(5)]
            own = _drawn(_OWN, rng)
            lines.append(f"{number},{click},{conversion},{user},{own}\n")
        (folder / f"sample_skeleton_{part}.csv").write_text("".join(lines))
