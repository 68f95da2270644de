import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from recsys.errors import DataError
from studies.glue import METRICS
from studies.glue import TASKS
from studies.glue import glue_metrics
from studies.glue import read_glue

# A file of each published layout: task, split, header, row, what it says.
LAYOUTS = [
    (
        "cola",
        "train",
        "",
        "gj04\t0\t*\tThey drank the.",
        ["They drank the."],
        0,
    ),
    ("cola", "test", "index\tsentence", "0\tBill sank.", ["Bill sank."], None),
    ("sst-2", "train", "sentence\tlabel", "bad \t0", ["bad "], 0),
    ("sst-2", "test", "index\tsentence", "0\tbad", ["bad"], None),
    (
        "mrpc",
        "dev",
        "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        '1\t135\t136\t"Yes," he said\tHe said "yes"',
        ['"Yes," he said', 'He said "yes"'],
        1,
    ),
    (
        "mrpc",
        "test",
        "index\t#1 ID\t#2 ID\t#1 String\t#2 String",
        "0\t135\t136\tOne\tTwo",
        ["One", "Two"],
        None,
    ),
    (
        "qqp",
        "train",
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        "13\t2\t3\tWhy?\tHow?\t1",
        ["Why?", "How?"],
        1,
    ),
    (
        "qqp",
        "test",
        "id\tquestion1\tquestion2",
        "0\tA?\tB?",
        ["A?", "B?"],
        None,
    ),
    (
        "sts-b",
        "dev",
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2"
        "\tsentence1\tsentence2\tscore",
        "0\tnews\tMSR\t2012\t1\tnone\tnone\tA plane.\tA jet.\t4.250",
        ["A plane.", "A jet."],
        4.25,
    ),
    (
        "mnli",
        "train",
        "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse"
        "\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse"
        "\tsentence1\tsentence2\tlabel1\tgold_label",
        "0\t31\t31n\tfiction\t(\t)\t(\t)\tNo.\tYes.\tneutral\tcontradiction",
        ["No.", "Yes."],
        2,
    ),
    (
        "mnli",
        "dev_mismatched",
        "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse"
        "\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse"
        "\tsentence1\tsentence2\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5"
        "\tgold_label",
        "0\t7\t7c\tletters\t(\t)\t(\t)\tA.\tB.\tx\tx\tx\tx\tx\tneutral",
        ["A.", "B."],
        1,
    ),
    (
        "mnli",
        "test_matched",
        "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse"
        "\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse"
        "\tsentence1\tsentence2",
        "0\t7\t7c\tletters\t(\t)\t(\t)\tA.\tB.",
        ["A.", "B."],
        None,
    ),
    (
        "qnli",
        "dev",
        "index\tquestion\tsentence\tlabel",
        "0\tWho?\tHe.\tnot_entailment",
        ["Who?", "He."],
        1,
    ),
    (
        "rte",
        "train",
        "index\tsentence1\tsentence2\tlabel",
        "0\tAll.\tSome.\tentailment",
        ["All.", "Some."],
        0,
    ),
    (
        "rte",
        "test",
        "index\tsentence1\tsentence2",
        "0\tA.\tB.",
        ["A.", "B."],
        None,
    ),
    (
        "wnli",
        "train",
        "index\tsentence1\tsentence2\tlabel",
        "0\tIt broke.\tThe cup broke.\t1",
        ["It broke.", "The cup broke."],
        1,
    ),
]


def write(folder: Path, split: str, *lines: str) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    file = folder / f"{split}.tsv"
    file.write_bytes("".join(f"{line}\n" for line in lines if line).encode())
    return file


@pytest.mark.parametrize(
    ("task", "split", "header", "row", "sentences", "label"), LAYOUTS
)
def test_each_published_layout_is_read(
    tmp_path: Path,
    task: str,
    split: str,
    header: str,
    row: str,
    sentences: list[str],
    label: float | None,
) -> None:
    write(tmp_path / TASKS[task].folder, split, header, row)
    examples = read_glue(tmp_path, task, split)
    assert examples.sentences == tuple([sentence] for sentence in sentences)
    if label is None:
        assert examples.labels is None
    else:
        np.testing.assert_array_equal(examples.labels, [label])


def test_every_task_has_a_layout_with_labels() -> None:
    tested = {layout[0] for layout in LAYOUTS if layout[-1] is not None}
    assert tested == set(TASKS)


def test_the_folder_may_be_that_of_the_task_and_its_files_packed(
    tmp_path: Path,
) -> None:
    text = 'index\tsentence1\tsentence2\tlabel\r\n0\tA"\t\x85B\tentailment\r\n'
    (tmp_path / "dev.tsv.gz").write_bytes(gzip.compress(text.encode()))
    examples = read_glue(tmp_path, "rte", "dev")
    assert examples.sentences == (['A"'], ["\x85B"])
    assert examples.labels is not None
    assert examples.labels.tolist() == [0]


def test_short_rows_of_qqp_are_left_out(tmp_path: Path) -> None:
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"
    write(tmp_path, "train", header, "1\t2\t3\tA?", "1\t2\t3\tB?\tC?\t0")
    examples = read_glue(tmp_path, "qqp", "train")
    assert examples.sentences == (["B?"], ["C?"])


RTE = "index\tsentence1\tsentence2\tlabel"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([RTE, "0\tA\tB\tyes"], "row 1 .*entailment or not_entailment.*'yes'"),
        ([RTE, "0\tA\tB\tentailment", "1\tA"], "row 2 .*with fewer"),
        ([RTE, "0\tA\tB\tentailment\tC"], "row 1 .*4 columns.*5 columns"),
        (["index\tsentence1\tlabel", "0\tA\tB"], "a column 'sentence2'"),
        ([RTE], "expected rows. Received: none"),
    ],
)
def test_a_broken_file_is_one_error(
    tmp_path: Path, lines: list[str], message: str
) -> None:
    file = write(tmp_path, "train", *lines)
    with pytest.raises(DataError, match=f"{file}.*{message}"):
        read_glue(tmp_path, "rte", "train")


def test_a_score_out_of_range_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "dev", "sentence1\tsentence2\tscore", "A\tB\t5.5")
    with pytest.raises(DataError, match=r"'score'.*a number, 0 to 5.*5\.5"):
        read_glue(tmp_path, "sts-b", "dev")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}.*dev.tsv"):
        read_glue(tmp_path, "rte", "dev")
    with pytest.raises(FileNotFoundError, match="no folder of this name"):
        read_glue(tmp_path / "none", "rte", "dev")


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`task`.*Received: task='squad'"):
        read_glue(tmp_path, "squad", "dev")
    with pytest.raises(ValueError, match=r"`split`.*dev_matched"):
        read_glue(tmp_path, "mnli", "dev")


def test_metrics_by_hand() -> None:
    labels, given = np.array([1, 1, 0, 0]), np.array([1, 0, 0, 0])
    # Precision 1, recall 1/2; Matthews (1·2 - 0·1) / sqrt(1·2·2·3).
    assert METRICS["accuracy"](labels, given) == 0.75
    assert METRICS["f1"](labels, given) == pytest.approx(2 / 3)
    assert METRICS["matthews"](labels, given) == pytest.approx(2 / 12**0.5)
    scores, predicted = np.array([0.0, 1, 2]), np.array([0.0, 1, 5])
    # Of the deviations (-1, 0, 1) and (-2, -1, 3).
    expected = 5 / (2 * 14) ** 0.5
    assert METRICS["pearson"](scores, predicted) == pytest.approx(expected)
    assert METRICS["spearman"](scores, predicted) == pytest.approx(1)


def test_published_metrics_of_each_task() -> None:
    labels, given = np.array([0, 1, 1]), np.array([0, 1, 0])
    names = {task: set(glue_metrics(task, labels, given)) for task in TASKS}
    assert names["cola"] == {"matthews"}
    assert names["mrpc"] == names["qqp"] == {"f1", "accuracy"}
    assert names["sts-b"] == {"pearson", "spearman"}
    for task in ("sst-2", "mnli", "qnli", "rte", "wnli"):
        assert names[task] == {"accuracy"}


def test_the_real_rte() -> None:
    folder = Path(os.environ.get("RECSYS_DATA", "")) / "glue-rte"
    if not folder.is_dir():
        pytest.skip("RECSYS_DATA names no folder with glue-rte")
    sizes = {}
    for split in ("train", "dev", "test"):
        examples = read_glue(folder, "rte", split)
        sizes[split] = len(examples.sentences[0])
    assert sizes == {"train": 2490, "dev": 277, "test": 3000}
    labels = read_glue(folder, "rte", "dev").labels
    assert labels is not None
    assert np.bincount(labels).tolist() == [146, 131]
