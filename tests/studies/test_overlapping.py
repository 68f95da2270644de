"""`python -m studies.overlapping` on small data in the published layouts."""

import gzip
import json
import re
from pathlib import Path

import keras
import numpy as np
import pytest

from studies.feed_forward import FeedForward
from studies.gpt import gpt
from studies.overlapping import figures
from studies.overlapping import main
from studies.overlapping import parse_options
from studies.overlapping_gpt import GPT_FIGURES
from studies.overlapping_gpt import Length
from studies.overlapping_gpt import TokenRows
from studies.overlapping_gpt import read_token_rows
from studies.overlapping_gpt import train_gpt
from studies.overlapping_perceptrons import PROTOCOLS
from studies.overlapping_perceptrons import perceptron_study
from studies.overlapping_study import Options
from studies.perceptrons import PERCEPTRONS
from studies.perceptrons import choices

pytestmark = pytest.mark.once("torch")


def write_cifar10(folder: Path) -> None:
    """24 images a batch, whose brightness is their class."""
    generator = np.random.default_rng(0)
    for name in ("data_batch_1", "test_batch"):
        records = generator.integers(0, 99, size=(24, 3073), dtype=np.uint8)
        records[:, 0] = np.arange(24) % 10
        records[:, 1:] += 15 * records[:, :1]
        (folder / f"{name}.bin").write_bytes(records.tobytes())


def write_wikitext(folder: Path) -> None:
    text = " = Heading = \n the cat sat on the mat . \n" * 60
    for split in ("valid", "test"):
        packed = gzip.compress(text.encode())
        (folder / f"{split}.txt.gz").write_bytes(packed)


def smoke(figure: str, out: Path, *arguments: str) -> None:
    main(["--figure", figure, "--out", str(out), "--smoke", *arguments])


def table(out: Path) -> list[list[str]]:
    lines = (out / "table.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("|")]
    return [re.split(r" *\| *", row.strip("| ")) for row in rows[2:]]


def test_every_figure_of_the_paper_has_a_study() -> None:
    """All but the first, a drawing."""
    numbers = {int(name) for name in figures() if name.isdigit()}
    assert numbers == set(range(2, 35))


def test_the_settings_of_the_gpts_are_the_published_ones() -> None:
    """The captions of figures 9, 10 and 12 to 32."""
    assert GPT_FIGURES["9"].sizes == ("small", "medium", "large")
    for number, text, size in (
        ("13", "wikitext", "medium"),
        ("16", "codeparrot", "medium"),
        ("20", "wikitext", "large"),
        ("27", "codeparrot", "small"),
        ("31", "wikitext", "medium"),
        ("32", "codeparrot", "small"),
    ):
        figure = GPT_FIGURES[number]
        assert (figure.text, figure.sizes) == (text, (size,))
    assert GPT_FIGURES["18"].learning_rate == 1e-3
    # A batch of 64 instead of 256.
    assert GPT_FIGURES["24"].accumulated * 4 == GPT_FIGURES["9"].accumulated


@pytest.mark.parametrize("figure", ["2", "33"])
def test_without_data(figure: str, tmp_path: Path) -> None:
    models = ["--models", "overlapping", "moe"] if figure == "33" else []
    smoke(figure, tmp_path, *models)
    assert len(table(tmp_path)) == 2
    text = (tmp_path / "table.md").read_text()
    assert ("PLANTED" in text) == (figure == "33")


@pytest.mark.parametrize(
    ("figure", "models"),
    [
        ("3", ""),
        ("4", "overlapping l1 bernoulli"),
        ("6", "vit/overlapping mixer/overlapping"),
        pytest.param("layers", "", marks=pytest.mark.slow),
    ],
)
def test_on_images(figure: str, models: str, tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    out = tmp_path / "out"
    given = ["--models", *models.split()] if models else []
    smoke(figure, out, "--data", str(tmp_path), *given)
    rows = table(out)
    if models:
        assert {row[-6] for row in rows} == set(models.split())
    text = (out / "table.md").read_text()
    assert re.search("16 (training )?images", text)


def test_units_are_counted_on_second_images(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    images = np.random.default_rng(0).integers(
        0, 20, size=(40, 3074), dtype=np.uint8
    )
    for split in ("train", "test"):
        (tmp_path / f"{split}.bin").write_bytes(images.tobytes())
    out, data = tmp_path / "out", str(tmp_path)
    smoke("3", out, "--data", data, "--second-data", data)
    results = json.loads((out / "results.json").read_text())
    for result in results:
        assert result["dead on both (%)"] <= result["dead units (%)"]
    assert "dead on both" in (out / "table.md").read_text()


@pytest.mark.slow
def test_on_text(tmp_path: Path) -> None:
    write_wikitext(tmp_path)
    out = tmp_path / "out"
    smoke("9", out, "--data", str(tmp_path), "--models", "overlapping")
    ((size, model, _, _, best, *_),) = table(out)
    assert (size, model) == ("width 16", "overlapping")
    # About as many as there are bytes, untrained.
    assert 100 < float(best) < 300
    text = (out / "table.md").read_text()
    assert "tokens are bytes" in text
    assert "trained on the validation's" in text


def test_codeparrots_last_files_are_its_test(tmp_path: Path) -> None:
    lines = [json.dumps({"content": letter * 40}) for letter in "abcdefghij"]
    (tmp_path / "a.json").write_text("\n".join(lines))
    rows = read_token_rows("codeparrot", Options(data=tmp_path), length=8)
    # 9 files of 40 letters, 8 ends of lines between them.
    assert rows.train.shape == ((9 * 40 + 8 - 1) // 8, 9)
    assert len(np.unique(rows.test)) == 1
    # The last token of a row is the first of the next one.
    np.testing.assert_array_equal(rows.train[:-1, -1], rows.train[1:, 0])


@pytest.mark.slow
def test_a_gpt_learns_until_its_last_epoch() -> None:
    """Also where several batches make a step of the optimizer."""
    text = np.tile(np.arange(9, dtype="int32") % 3, (16, 1))
    keras.utils.set_random_seed(0)
    model = gpt(3, 8, FeedForward("standard", 0.5), 1, 16, 1, dropout=0.0)
    measures = train_gpt(
        model,
        TokenRows(text, text, vocabulary_size=3, notes=[]),
        {"learning rate": 0.1, "epochs": 3, "batch size": 2, "accumulated": 4},
    )
    best, last, mean = (measures[name] for name in ("best", "last", "mean"))
    assert best == last
    # It would be the mean of equal ones with a rate of 0 from the second on.
    assert float(last or 0) < 0.9 * float(mean or 0)


def test_a_study_goes_on_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    smoke("2", tmp_path)
    first = (tmp_path / "results.json").read_bytes()
    smoke("2", tmp_path)
    assert (tmp_path / "results.json").read_bytes() == first
    assert capsys.readouterr().out.count("least alike") == 4


def test_what_is_not_as_published_is_said() -> None:
    _, _, options = parse_options(
        ["--table", "4", "--out", "o", "--epochs", "5", "--widths", "100"]
    )
    published = {"epochs": 100, "widths": (100,), "batch_size": 8}
    assert options.differing(published) == ["epochs 5 (published 100)"]


def test_epochs_that_the_paper_does_not_name_are_called_so() -> None:
    _, _, options = parse_options(
        ["--figure", "4", "--out", "o", "--epochs", "5"]
    )
    notes = {figure: PROTOCOLS[figure].notes(options) for figure in PROTOCOLS}
    assert "epochs 5 (published 100)" in notes["4"]  # Appendix A.1.
    for figure in ("11", "34"):  # Appendices A.2 and A.6 name none.
        assert "5 epochs (not published)" in notes[figure]
        assert not any("published 100" in note for note in notes[figure])


def test_a_warm_up_that_is_cut_is_noted() -> None:
    settings = {"epochs": 6, "batch size": 4, "accumulated": 8}
    assert Length.of(800, settings).notes() == [
        "a warm-up of 15 steps, a tenth of the training (published 1,000)"
    ]
    # 3 epochs of 4,000 steps, of 8 batches with 32 rows.
    published = {"epochs": 3, "batch size": 32, "accumulated": 8}
    length = Length.of(4_000 * 8 * 32, published)
    assert (length.warmup, length.notes()) == (8_000, [])


def test_choices_of_the_compared_models_are_noted() -> None:
    assert choices(["overlapping", "standard", "smaller", "dropout"]) == []
    router, masks, penalty = choices(tuple(PERCEPTRONS))
    assert router.startswith("a router of p N ReLU units")
    assert masks.startswith("20% of the units always active")
    assert penalty.startswith("an L1 penalty of 1e-05")
    notes = perceptron_study("33", Options(most_rows=8, models=["l1"])).notes
    assert penalty in notes
    assert any("standardised" in note for note in notes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--figure", "1"], "`figure` must be one of"),
        (["--figure", "4"], "`data` must be the folder of the download"),
        (
            ["--figure", "33", "--models", "l2"],
            "Received: 'l2'",
        ),
    ],
)
def test_what_is_wrong_is_said(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        main([*arguments, "--out", str(tmp_path), "--smoke"])
