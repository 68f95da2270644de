from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from keras import ops

import recsys
from recsys.cli import run as command
from recsys.data import DataError
from recsys.data import Dataset
from recsys.errors import RunError
from recsys.runs.run import Run
from tests.recsys.retrieval.id_kinds import LARGE
from tests.recsys.retrieval.id_kinds import IdKinds
from tests.recsys.retrieval.id_kinds import of_texts

pytestmark = [pytest.mark.slow, pytest.mark.once("torch")]


def test_the_best_candidates_in_order(
    retrieving_run: Path, films: Dataset, ids: IdKinds
) -> None:
    score = "watch^0.7 * rating"
    found = recsys.recommend(
        retrieving_run, ids.user(4), top=3, candidates=8, score=score
    )
    train = films.split("train")
    last = train[train["user"] == ids.user(4)].iloc[[-1]]
    ranker = Run(retrieving_run).load_two_tower()
    queries = ranker.query_vectors(ranker.encode(last))
    scores = ops.convert_to_numpy(queries)[0] @ ranker.retrieval.vectors.T
    candidates = np.argsort(-scores)[:8]  # Film n is the item n + 1.
    rows = pd.concat([last] * 8).assign(
        item=ids.items(candidates),
        genres=[[f"g{item % 3}"] for item in candidates],
    )
    expected = ranker.predict(rows.reset_index(drop=True))
    expected["item"] = ids.items(candidates)
    expected["score"] = expected["watch"] ** 0.7 * expected["rating"]
    expected = expected.sort_values("score", ascending=False).head(3)
    assert found["item"].tolist() == expected["item"].tolist()
    for column in ("watch", "rating", "score"):
        np.testing.assert_allclose(found[column], expected[column], rtol=1e-4)


def test_without_a_score_the_task_of_the_retrieval_counts(
    retrieving_run: Path, ids: IdKinds
) -> None:
    found = recsys.recommend(retrieving_run, ids.user(4))
    assert found["score"].tolist() == found["watch"].tolist()
    assert found["score"].is_monotonic_decreasing
    watched = np.array(ids.numbers(found["item"])) % 3 == 1  # As user 4.
    assert watched.mean() > 0.5


@pytest.mark.parametrize("rerank", ["mmr", "dpp"])
def test_a_list_of_different_items(
    retrieving_run: Path, ids: IdKinds, rerank: str
) -> None:
    user, options = ids.user(4), {"top": 6, "candidates": 20}
    plain = recsys.recommend(retrieving_run, user, **options)
    same = recsys.recommend(
        retrieving_run, user, **options, rerank=rerank, diversity=0.0
    )
    pd.testing.assert_frame_equal(same, plain)
    found = recsys.recommend(
        retrieving_run, user, **options, rerank=rerank, diversity=0.8
    )
    assert found["item"][0] == plain["item"][0]
    assert found["item"].is_unique
    assert not found["score"].is_monotonic_decreasing
    retrieval = Run(retrieving_run).load_two_tower().retrieval
    vectors = ops.convert_to_numpy(retrieval.vectors)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = []
    for table in (plain, found):  # Film n is the item n + 1.
        own = vectors[np.array(ids.numbers(table["item"]))]
        cosines.append((own @ own.T).mean())
    assert cosines[1] < cosines[0]


def test_the_metrics_of_lists_are_those_of_what_is_retrieved(
    retrieving_run: Path, films: Dataset, ids: IdKinds
) -> None:
    found = Run(retrieving_run).read_metrics()["test"]["retrieval"]
    assert set(found["diversity"]) == {
        *("novelty@5", "coverage@5", "intra_list_distance@5")
    }
    ranker = Run(retrieving_run).load_two_tower()
    test = films.split("test")
    test = test[test["watch"] == 1]
    queries = ops.convert_to_numpy(ranker.query_vectors(ranker.encode(test)))
    scores = queries @ ops.convert_to_numpy(ranker.retrieval.vectors).T
    lists = np.argsort(-scores, axis=1)[:, :5]
    assert found["diversity"]["coverage@5"] == pytest.approx(
        len(np.unique(lists)) / scores.shape[1]
    )
    train = films.split("train")
    numbers = ids.numbers(train["item"][train["watch"] == 1])
    counts = np.bincount(numbers, minlength=30) + 1
    bits = -np.log2(counts / counts.sum())
    assert found["diversity"]["novelty@5"] == pytest.approx(bits[lists].mean())


def test_a_reranker_that_there_is_not(
    retrieving_run: Path,
    ids: IdKinds,
    capfd: pytest.CaptureFixture[str],
) -> None:
    words = ["--run", str(retrieving_run), "--user", str(ids.user(4))]
    assert command(["recommend", *words, "--rerank", "ddp"]) == 2
    assert "mmr, dpp. Received: rerank='ddp'" in capfd.readouterr().err
    assert command(["recommend", *words, "--diversity", "2"]) == 2
    assert "`diversity` must be from 0 to 1" in capfd.readouterr().err


def test_titles_and_experts(retrieving_run: Path, ids: IdKinds) -> None:
    found = recsys.recommend(retrieving_run, ids.user(4), top=30)
    assert len(found) == 30
    numbers = ids.numbers(found["item"])
    titles = dict(zip(numbers, found["title"], strict=True))
    assert titles.pop(29) == ""
    assert titles == {number: f"Film [{number}]" for number in range(29)}
    for experts in found["rating_experts"]:
        assert len(experts) == 2  # A top-2 gate.
        (first, larger), (second, smaller) = experts
        assert first != second
        assert larger >= smaller > 0
        assert larger + smaller == pytest.approx(1)


def test_what_was_seen_is_left_out(
    retrieving_run: Path, films: Dataset, ids: IdKinds
) -> None:
    train = films.split("train")
    user = ids.user(4)
    had = train[(train["user"] == user) & (train["watch"] == 1)]["item"]
    found = recsys.recommend(
        retrieving_run, user, top=30, candidates=5, exclude_seen=True
    )
    assert len(found) == 5
    assert not set(found["item"]) & set(had)


def test_an_unknown_user_and_what_is_said_of_one(
    retrieving_run: Path, ids: IdKinds
) -> None:
    user = ids.nobody
    with pytest.warns(UserWarning, match=f"has no user {user!r}: these"):
        nobody = recsys.recommend(retrieving_run, user, exclude_seen=True)
    assert len(nobody) == 10
    assert np.isfinite(nobody["score"]).all()
    history = f"{ids.item(3)}|{ids.item(20)}"
    with pytest.warns(UserWarning, match="for an unknown user"):
        told = recsys.recommend(
            retrieving_run, user, features={"age": "31", "history": history}
        )
    assert told["score"].tolist() != nobody["score"].tolist()


@of_texts
def test_a_user_whose_id_is_a_number(
    fields: Callable[..., dict[str, Any]],
    films: Dataset,
    ids: IdKinds,
    tmp_path: Path,
) -> None:
    users = {ids.user(number): LARGE + number for number in range(12)}
    numbered = replace(
        films,
        splits={
            name: split.assign(user=split["user"].map(users))
            for name, split in films.splits.items()
        },
        items=None,
    )
    numbered.write(tmp_path / "data")
    data = str(tmp_path / "data")
    recsys.train(fields(tmp_path / "run", data=data, epochs=1))
    user, run = LARGE + 5, tmp_path / "run"  # Which no float is.
    by_number = recsys.recommend(run, user, exclude_seen=True)
    assert "title" not in by_number
    by_text = recsys.recommend(run, str(user), exclude_seen=True)
    pd.testing.assert_frame_equal(by_text, by_number)
    neighbour = recsys.recommend(run, user - 1, exclude_seen=True)
    assert neighbour["score"].tolist() != by_number["score"].tolist()
    with pytest.warns(UserWarning, match="for an unknown user"):
        recsys.recommend(run, f"0{user}")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"top": 0}, ValueError, "`top` must be at least 1"),
        ({"candidates": 0}, ValueError, "`candidates` must be at least 1"),
        ({"score": "watch +"}, ValueError, "`score`: .*character 8"),
        ({"score": "like"}, ValueError, "one of the names watch, rating"),
        ({"features": {"genres": "a"}}, DataError, "features among.*genres"),
        ({"features": {"age": "old"}}, DataError, "column 'age'.*old"),
        (
            {"features": {"history": "a\ud83d"}},
            DataError,
            "column 'history'.*valid Unicode text",
        ),
    ],
)
def test_what_cannot_be_asked_for(
    retrieving_run: Path,
    ids: IdKinds,
    changes: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        recsys.recommend(retrieving_run, ids.user(4), **changes)


def test_a_user_who_is_no_text(retrieving_run: Path) -> None:
    for user in ("a\ud83d", 1 + 2j, b"u4"):
        with pytest.raises(DataError, match="`user`, column 'user', data row"):
            recsys.recommend(retrieving_run, user)


def test_a_run_without_retrieval(run: Path) -> None:
    with pytest.raises(RunError, match="a run with `retrieval`"):
        recsys.recommend(run, 3)


def test_the_command(
    retrieving_run: Path,
    films_folder: Path,
    ids: IdKinds,
    capfd: pytest.CaptureFixture[str],
) -> None:
    options = ["--run", str(retrieving_run), "--user", str(ids.user(4))]
    options += ["--top", "2"]
    options += ["--feature", "age=24", "--score", "watch * rating"]
    assert command(["recommend", *options]) == 0
    printed = capfd.readouterr().out
    assert "Film [" in printed
    assert "rating: experts" in printed
    assert len(printed.strip().splitlines()) == 4
    options = ["--run", str(retrieving_run), "--data", str(films_folder)]
    assert command(["evaluate", *options]) == 0
    assert "Retrieval, test: recall@5 0." in capfd.readouterr().out


def test_items_without_a_finite_score_are_last(
    retrieving_run: Path, ids: IdKinds
) -> None:
    user = ids.user(4)
    found = recsys.recommend(retrieving_run, user, top=30)
    middle = float(found["watch"].iloc[14])
    score = f"log(watch - {middle:.17g})"
    scored = recsys.recommend(retrieving_run, user, top=30, score=score)
    assert np.isfinite(scored["score"][:14]).all()
    assert scored["score"][14:].isna().all()
    large = recsys.recommend(
        retrieving_run, user, top=30, score="watch * 1e300"
    )
    assert large["score"].isna().all()
