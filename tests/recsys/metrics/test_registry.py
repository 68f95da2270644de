"""The lines of the registries of metrics, and the pages that name them."""

import re
from itertools import chain
from pathlib import Path

import pytest

from recsys.metrics import IN_GROUPS
from recsys.metrics import RETRIEVAL_METRICS
from recsys.metrics import TASK_METRICS
from recsys.metrics import Metric
from recsys.tasks import TASKS

DOCS = Path(__file__).parents[3] / "docs"


def test_each_kind_of_task_has_its_metrics() -> None:
    assert {*TASK_METRICS} == {*TASKS, IN_GROUPS}


@pytest.mark.parametrize("of", TASK_METRICS)
def test_names_differ_and_the_loss_is_first(of: str) -> None:
    names = [metric.name for metric in TASK_METRICS[of]]
    assert len({*names}) == len(names)
    assert (names[0] == "loss") == (of in TASKS)


def test_a_name_is_shown_alike_for_all_kinds() -> None:
    """Tables have one column of it, whatever kind a task has."""
    shown: dict[str, set[tuple[object, ...]]] = {}
    for metric in chain.from_iterable(TASK_METRICS.values()):
        said = {**vars(metric), "compute": None}
        shown.setdefault(metric.name, set()).add(tuple(said.values()))
    assert [name for name, said in shown.items() if len(said) > 1] == []


def test_the_page_of_metrics_has_all() -> None:
    text = (DOCS / "own_data.md").read_text(encoding="utf-8")
    _, _, section = text.partition("## What the metrics say")
    table = "\n".join(re.findall(r"^\|.*$", section, re.MULTILINE))
    named = {name.split(".")[-1] for name in re.findall(r"`([^`]+)`", table)}
    metrics = chain.from_iterable(TASK_METRICS.values())
    assert {metric.name_at(10) for metric in metrics} - named == set()


def test_the_page_of_the_retrieval_has_all() -> None:
    text = (DOCS / "retrieval.md").read_text(encoding="utf-8")
    text = re.sub("```.*?```", "", text, flags=re.DOTALL)
    named = set(re.findall(r"`([^`]+)`", text))
    names = {f"{name}@10" for name in RETRIEVAL_METRICS}
    names |= {f"user_{name}" for name in names}
    assert names - named == set()


@pytest.mark.parametrize("name", ["auc", "ndcg", "ndcg@", "ndcg@x", "auc@10"])
def test_a_ranking_metric_is_called_by_its_name_and_a_k(name: str) -> None:
    assert not Metric("ndcg", print, at_k=True).is_called(name)
    assert Metric("auc", print).is_called(name) == (name == "auc")
