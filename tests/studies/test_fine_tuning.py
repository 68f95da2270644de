import json
from pathlib import Path

import keras
import numpy as np
import pytest

from recsys.errors import FileError
from studies.fine_tuning import main
from studies.language_model import sentence_classifier
from studies.tokens import byte_tokenizer
from tests.studies.small_language_model import small_model


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    file = tmp_path / "study" / "models" / "choice.keras"
    file.parent.mkdir(parents=True)
    small_model().save(file)
    byte_tokenizer().save(str(tmp_path / "study" / "tokenizer.json"))
    return file


def write_rte(folder: Path) -> None:
    """A task of one byte: entailed where the second sentence is a Y."""
    lines = ["index\tsentence1\tsentence2\tlabel"]
    for index in range(32):
        entailed = index % 3 == 0
        label = "entailment" if entailed else "not_entailment"
        lines.append(f"{index}\tA{index}\t{'Y' if entailed else 'N'}\t{label}")
    folder.mkdir()
    for split in ("train", "dev"):
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")


@pytest.mark.once("torch")
def test_the_head_sees_the_last_token(rng: np.random.Generator) -> None:
    model = small_model(length=6)
    classifier = sentence_classifier(model, 3)
    ids = rng.integers(5, 261, size=(2, 6), dtype="int32")
    mask = np.array([[1, 1, 1, 1, 0, 0], [1] * 6], "int32")
    features = keras.Model(model.input, model.get_layer("layer_norm").output)
    inputs = {"token_ids": ids, "padding_mask": mask}
    last = keras.ops.convert_to_numpy(features(inputs))[[0, 1], [3, 5]]
    head = classifier.get_layer("head")
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(classifier(inputs)),
        keras.ops.convert_to_numpy(head(last)),
        atol=1e-5,
    )


@pytest.mark.slow
@pytest.mark.skipif(
    keras.backend.backend() == "jax", reason="compiles for a minute"
)
def test_smoke(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rte(tmp_path / "RTE")
    out = tmp_path / "out"
    main(
        [
            *("--from", str(saved), "--glue", str(tmp_path), "--task", "rte"),
            *("--out", str(out), "--seeds", "1", "--smoke"),
        ]
    )
    (row,) = json.loads((out / "results.json").read_text())
    assert row["model"] == "choice"
    assert 0 <= row["dev accuracy"] <= 1
    assert "| choice | rte | 1 |" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.once("torch")
def test_what_can_be_learned_is(saved: Path, tmp_path: Path) -> None:
    write_rte(tmp_path / "rte")
    out = tmp_path / "out"
    main(
        [
            *("--from", str(saved), "--glue", str(tmp_path / "rte")),
            *("--out", str(out), "--seeds", "1", "--epochs", "25"),
            *("--learning-rate", "0.02"),
        ]
    )
    (row,) = json.loads((out / "results.json").read_text())
    assert row["dev accuracy"] == 1


@pytest.mark.once("torch")
def test_what_is_no_model_is_one_error(saved: Path, tmp_path: Path) -> None:
    write_rte(tmp_path / "rte")
    options = ["--glue", str(tmp_path / "rte"), "--out", str(tmp_path / "out")]
    with pytest.raises(FileNotFoundError, match=r"none\.keras"):
        main(["--from", str(tmp_path / "none.keras"), *options])
    (saved.parent / "broken.keras").write_bytes(b"PK")
    with pytest.raises(FileError, match=r"broken\.keras.*a language model"):
        main(["--from", str(saved.parent / "broken.keras"), *options])
    (saved.parent.parent / "tokenizer.json").write_text("{}")
    with pytest.raises(FileError, match=r"tokenizer\.json"):
        main(["--from", str(saved), *options])
