"""What the students of a BERT are trained and measured on."""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
from keras_hub.models import BertBackbone
from tokenizers import Tokenizer

from studies.bert import BertSize
from studies.bert import copy_bert
from studies.bert import load_bert
from studies.bert import random_bert
from studies.glue import TASKS
from studies.glue import glue_metrics
from studies.glue import read_glue
from studies.planted_teacher import CLASSES
from studies.planted_teacher import as_inputs
from studies.planted_teacher import planted_task
from studies.squad import load_squad
from studies.squad import squad_scores
from studies.squad_rows import marked_answers
from studies.squad_rows import squad_rows
from studies.tokens import sentence_rows
from studies.tokens import word_piece_tokenizer

# Those of the papers' tables; STS-B, of scores, and WNLI are left out there.
GLUE_TASKS = tuple(name for name in TASKS if name not in ("sts-b", "wnli"))
SQUAD_TASKS = ("squad-v1.1", "squad-v2.0")

Inputs = dict[str, np.ndarray]


@dataclass(frozen=True)
class Task:
    """A task, encoded.

    Attributes:
        backbone: Makes the BERT to begin with.
        num_classes: The classes of a text; `None` where answers are marked.
        inputs: What a BERT takes, arrays `(N, s)`, of the training split.
        labels: `(N,)` classes, or `(N, 2)` first and last token.
        development: What each of the splits to measure on consists of.
        measure: Returns the published metrics by name, given the logits of
            each of these splits; the first one decides which epoch counts.
        teacher: The model that has made the labels, if there is one.
    """

    backbone: Callable[[], BertBackbone]
    num_classes: int | None
    inputs: Inputs
    labels: np.ndarray
    development: Mapping[str, Inputs]
    measure: Callable[[Mapping[str, np.ndarray]], dict[str, float]]
    teacher: keras.Model | None = None


@dataclass(frozen=True)
class Reader:
    """What turns texts into inputs of a BERT.

    Args:
        size: Shape of the BERT, where there is no preset.
        length: The longest text in tokens; longer ones are cut.
        vocabulary_size: Tokens of a vocabulary that is computed from the
            training split, where there is no preset.
        preset: Folder of a keras-hub preset.
    """

    size: BertSize = field(default_factory=BertSize)
    length: int = 128
    vocabulary_size: int = 4_000
    preset: Path | None = None

    def begin(
        self, sentences: Sequence[Sequence[str]]
    ) -> tuple[Callable[[], BertBackbone], Tokenizer]:
        """Returns what makes a BERT, and its tokenizer."""
        if self.preset is not None:
            backbone, tokenizer = load_bert(self.preset)
            return lambda: copy_bert(backbone), tokenizer
        text = "\n".join(text for column in sentences for text in column)
        tokenizer = word_piece_tokenizer(text, self.vocabulary_size)
        size = tokenizer.get_vocab_size()
        return lambda: random_bert(self.size, size, self.length), tokenizer

    def encode(
        self, tokenizer: Tokenizer, sentences: Sequence[Sequence[str]]
    ) -> Inputs:
        """Returns a BERT's inputs for one column of sentences, or two."""
        return dict(vars(sentence_rows(tokenizer, sentences, self.length)))


def glue_task(folder: Path, name: str, reader: Reader) -> Task:
    """Reads a task of GLUE.

    Args:
        folder: As `read_glue` takes it.
        name: One of `GLUE_TASKS`.
        reader: Encodes its sentences.
    """
    train = read_glue(folder, name, "train")
    splits = {
        split: read_glue(folder, name, split)
        for split in TASKS[name].development_splits
    }
    backbone, tokenizer = reader.begin(train.sentences)

    def measure(logits: Mapping[str, np.ndarray]) -> dict[str, float]:
        return {
            _named(metric, split): value
            for split, found in logits.items()
            for metric, value in glue_metrics(
                name, _known(splits[split].labels), found.argmax(axis=-1)
            ).items()
        }

    return Task(
        backbone,
        len(TASKS[name].classes),
        reader.encode(tokenizer, train.sentences),
        _known(train.labels),
        {
            split: reader.encode(tokenizer, examples.sentences)
            for split, examples in splits.items()
        },
        measure,
    )


def _known(labels: np.ndarray | None) -> np.ndarray:
    assert labels is not None, "only test splits have none"
    return labels


def _named(metric: str, split: str) -> str:
    """`"accuracy"`, or `"accuracy mismatched"` for MNLI's second split."""
    _, _, part = split.partition("dev_")
    return f"{metric} {part}" if part else metric


def squad_task(folder: Path, version: str, reader: Reader) -> Task:
    """Reads SQuAD, whose metrics are the official ones in percent.

    Args:
        folder: Folder of `train-v2.0.json` and `dev-v2.0.json`.
        version: `"v1.1"` or `"v2.0"`, in which questions may have no answer.
        reader: Encodes questions with their paragraphs. Rows of one paragraph
            overlap by a quarter.
    """
    train, development = (
        load_squad(folder / f"{split}-{version}.json")
        for split in ("train", "dev")
    )
    texts = [[q.text, q.context] for q in train]
    backbone, tokenizer = reader.begin(texts)
    length = reader.length
    rows = squad_rows(tokenizer, train, length, length // 4)
    dev_rows = squad_rows(tokenizer, development, length, length // 4)

    def measure(logits: Mapping[str, np.ndarray]) -> dict[str, float]:
        answers = marked_answers(
            dev_rows, logits["dev"], development, version == "v2.0"
        )
        scores = squad_scores(answers, development)
        return {name: scores[name] for name in ("f1", "exact_match")}

    return Task(
        backbone,
        None,
        dict(vars(rows.tokens)),
        rows.spans,
        {"dev": dict(vars(dev_rows.tokens))},
        measure,
    )


def first_rows(task: Task, count: int) -> Task:
    """Leaves all but the first rows of a task's training split out.

    Args:
        task: The task.
        count: How many to keep.
    """
    inputs = {name: rows[:count] for name, rows in task.inputs.items()}
    return replace(task, inputs=inputs, labels=task.labels[:count])


def planted(size: BertSize, num_train: int, num_test: int, seed: int) -> Task:
    """Makes a task whose teacher is known.

    Args:
        size: The shape of the teacher.
        num_train: Sequences to train on.
        num_test: Sequences to measure on.
        seed: Of teacher and sequences.
    """
    drawn = planted_task(size, num_train, num_test, seed=seed)

    def measure(logits: Mapping[str, np.ndarray]) -> dict[str, float]:
        right = logits["test"].argmax(axis=-1) == drawn.test_labels
        return {"accuracy": float(right.mean())}

    return Task(
        lambda: copy_bert(drawn.backbone),
        CLASSES,
        as_inputs(drawn.train_tokens),
        drawn.train_labels,
        {"test": as_inputs(drawn.test_tokens)},
        measure,
        teacher=drawn.teacher,
    )
