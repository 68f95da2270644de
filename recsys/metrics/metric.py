from collections.abc import Callable
from dataclasses import dataclass

from recsys.metrics.group_mean import GroupMean

# What metrics are taken of, beside the kinds of tasks.
IN_GROUPS = "binary, within groups"


@dataclass(frozen=True)
class Metric:
    """A metric of a task: its name, computation and places in outputs.

    Every metric is in `metrics.json`.

    Attributes:
        name: What `metrics.json` calls it.
        compute: Of a binary task, and within its groups, takes `ScoredRows`;
            of another kind of task, `LabelledRows`. Returns the value, `None`
            where there is none, or a `GroupMean`.
        title: Its heading where the metrics of a run are printed. With one it
            is logged after each epoch, too, and an epoch can be chosen by it.
            `None` (default) for none of these.
        compared: Whether tables of several runs show it, which have room for
            few. Defaults to `False`.
        in_progress: Whether it is in the line that training prints after an
            epoch. Defaults to `False`.
        higher_is_better: Whether a better model has more of it. Defaults to
            `True`.
        at_k: Whether it looks at the first k of a ranking: its name ends in
            "@<k>" then, and `compute` takes it as `k`. Defaults to `False`.
    """

    name: str
    compute: Callable[..., GroupMean | float | None]
    title: str | None = None
    compared: bool = False
    in_progress: bool = False
    higher_is_better: bool = True
    at_k: bool = False

    def name_at(self, k: int) -> str:
        """Returns the name with the k that it looks at, if it does.

        Args:
            k: How many positions of a ranking count.

        Example:
        >>> Metric("ndcg", compute=print, at_k=True).name_at(10)
        'ndcg@10'
        """
        return f"{self.name}@{k}" if self.at_k else self.name

    def is_called(self, name: str) -> bool:
        """Returns whether `metrics.json` calls it so, with any k.

        Args:
            name: A name in `metrics.json`.

        Example:
        >>> Metric("ndcg", compute=print, at_k=True).is_called("ndcg@5")
        True
        """
        base, at, k = name.partition("@")
        return base == self.name and (k.isdigit() if self.at_k else not at)
