"""The study as it is run, on tiny settings."""

import json
from pathlib import Path

import keras
import pytest
from keras_hub.models import BertTokenizer

from studies.bert import BertSize
from studies.bert import random_bert
from studies.distillation import main
from studies.tokens import SPECIAL_TOKENS


def write_rte(folder: Path) -> Path:
    """Files as those of GLUE."""
    rows = [
        ("The Rhine ends in the sea.", "It ends in the sea.", "entailment"),
        ("It rises in the Alps.", "The Alps end in it.", "not_entailment"),
    ]
    header = "index\tsentence1\tsentence2\tlabel"
    for split in ("train", "dev"):
        lines = [f"{i}\t" + "\t".join(rows[i % 2]) for i in range(12)]
        text = "\n".join([header, *lines]) + "\n"
        (folder / f"{split}.tsv").write_text(text, encoding="utf-8")
    return folder


def runs(out: Path) -> dict[tuple[str, float | None], dict[str, float]]:
    content = json.loads((out / "results.json").read_text())
    return {(run["model"], run["distillation"]): run for run in content}


def words(task: str, *more: str) -> list[str]:
    """A command line for one run of each model."""
    return ["--task", task, "--smoke", "--seeds", "1", *more]


@pytest.mark.once("torch")
@pytest.mark.slow
def test_a_small_bert_is_trained_and_made_a_mixture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = words(
        "rte",
        *("--glue", str(write_rte(tmp_path)), "--out", str(out)),
        *("--vocabulary-size", "60", "--length", "16"),
        *("--narrow", "--gates", "hash", "--distillation", "0", "1"),
    )
    main(command)
    found = runs(out)
    assert set(found) == {("dense", None), ("hash", 0.0), ("hash", 1.0)}
    assert all(0 <= run["accuracy"] <= 1 for run in found.values())
    # A quarter of 24 neurons.
    assert found["hash", 1.0]["neurons"] == 6
    printed = capsys.readouterr().out
    assert "The BERT: random weights, trained on the task here" in printed
    assert "| rte | hash | 1.0 | 1 |" in printed
    # What is there is not trained again.
    before = (out / "results.json").read_bytes()
    main(command)
    assert (out / "results.json").read_bytes() == before


@pytest.mark.slow
@pytest.mark.once("torch")
def test_a_preset_is_fine_tuned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rte(tmp_path)
    keras.utils.set_random_seed(0)
    vocabulary = [*SPECIAL_TOKENS, "the", "alps", "ends", "in", "sea", "."]
    preset = tmp_path / "preset"
    size = BertSize(1, 1, 8, 24)
    random_bert(size, len(vocabulary), 16).save_to_preset(str(preset))
    BertTokenizer(vocabulary, lowercase=True).save_to_preset(str(preset))
    main(
        words(
            "rte",
            *("--glue", str(tmp_path), "--out", str(tmp_path / "out")),
            *("--preset", str(preset), "--length", "16"),
            *("--narrow", "--gates", "comet", "--distillation", "1"),
        )
    )
    assert f"The BERT: the preset {preset}" in capsys.readouterr().out
    assert ("comet", 1.0) in runs(tmp_path / "out")


@pytest.mark.slow
@pytest.mark.once("torch")
def test_gates_learn_from_a_planted_teacher(tmp_path: Path) -> None:
    gates = ("top-k", "comet+", "moesart")
    main(
        words(
            "planted",
            *("--narrow", "narrow-2", "--gates", *gates),
            *("--distillation", "1", "--out", str(tmp_path)),
        )
    )
    found = {model: run for (model, _), run in runs(tmp_path).items()}
    assert set(found) == {"dense", "narrow-2", *gates}
    assert found["dense"]["accuracy"] == 1
    assert found["dense"]["neurons"] == 24
    # 2 of 4 experts, of 6 neurons each.
    for model in ("top-k", "moesart", "narrow-2"):
        assert found[model]["neurons"] == 12


def write_squad(folder: Path) -> Path:
    """Files as those of SQuAD v2.0."""
    context = "The Rhine rises in the Alps and ends in the sea."
    asked = [
        ("Where does it rise?", [{"text": "the Alps", "answer_start": 19}]),
        ("Where is the Danube?", []),
    ]
    for split in ("train", "dev"):
        questions = [
            {"id": str(i), "question": text, "answers": answers}
            for i, (text, answers) in enumerate(asked * 4)
        ]
        paragraph = {"context": context, "qas": questions}
        content = {"data": [{"title": "Rhine", "paragraphs": [paragraph]}]}
        file = folder / f"{split}-v2.0.json"
        file.write_text(json.dumps(content), encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.once("torch")
def test_answers_are_marked_in_squad(tmp_path: Path) -> None:
    out = tmp_path / "out"
    main(
        words(
            "squad-v2.0",
            *("--squad", str(write_squad(tmp_path)), "--out", str(out)),
            *("--vocabulary-size", "60", "--length", "24"),
            *("--narrow", "--gates", "hash", "--distillation", "1"),
        )
    )
    found = runs(out)
    assert set(found) == {("dense", None), ("hash", 1.0)}
    for run in found.values():
        assert 0 <= run["exact_match"] <= run["f1"] <= 100


def test_a_task_of_glue_needs_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--task", "rte", "--out", str(tmp_path)])
    assert "--task rte needs --glue" in capsys.readouterr().err
