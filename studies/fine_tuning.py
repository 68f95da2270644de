r"""Fine-tunes language models on GLUE (Zhou et al. 2022, section 4.4).

    python -m studies.fine_tuning --glue GLUE --task rte --out OUT \
        --from STUDY/models/*-0.keras

STUDY is a folder of `studies.expert_choice`, whose `tokenizer.json` is used.
The features of a sentence's, or pair's, last token go to a linear head, and all
weights are trained. Experts choose among a batch in training and by threshold
at inference, as in pretraining. Printed are the task's published metrics on its
development split, with standard errors over the seeds; `results.json` in OUT
is what an interrupted study goes on from.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
from tokenizers import Tokenizer

from recsys.errors import FileError
from recsys.errors.reading import reading
from studies.glue import TASKS
from studies.glue import GlueExamples
from studies.glue import glue_metrics
from studies.glue import read_glue
from studies.glue import task_of
from studies.language_model import load_language_model
from studies.language_model import sentence_classifier
from studies.runs import Measures
from studies.runs import Settings
from studies.runs import run_all
from studies.runs import summary
from studies.tokens import sentence_rows


@dataclass(frozen=True)
class FineTuning:
    """Trains classifiers on one task.

    Args:
        name: Of the task.
        train: What is trained on.
        development: What is measured on, by the name of the split.
        epochs: Passes over the training split.
        batch_size: Examples of a step.
        learning_rate: Adam's.
        length: Tokens to which examples are cut; fewer where a model has not
            as many positions.
    """

    name: str
    train: GlueExamples
    development: dict[str, GlueExamples]
    epochs: int
    batch_size: int
    learning_rate: float
    length: int

    def run(self, settings: Settings) -> Measures:
        """Trains the model of a file, and measures it."""
        seed: Any = settings["seed"]
        file = Path(str(settings["file"]))
        keras.utils.set_random_seed(seed)
        language_model = load_language_model(file)
        tokenizer = load_tokenizer(file.parent.parent / "tokenizer.json")
        positions = language_model.get_layer("position_embedding")
        length = min(self.length, positions.sequence_length)
        classes = len(task_of(self.name).classes)
        model = sentence_classifier(language_model, classes or 1)
        model.compile(
            keras.optimizers.Adam(self.learning_rate),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            if classes
            else "mean_squared_error",
        )
        model.fit(
            encode(tokenizer, self.train, length),
            self.train.labels,
            batch_size=self.batch_size,
            epochs=self.epochs,
            verbose=0,
        )
        measures: dict[str, str | int | float | None] = {}
        for split, examples in self.development.items():
            outputs = model.predict(
                encode(tokenizer, examples, length),
                batch_size=self.batch_size,
                verbose=0,
            )
            given = outputs.argmax(axis=-1) if classes else outputs[:, 0]
            if examples.labels is None:
                raise ValueError(f"`development` must have labels: {split}")
            metrics = glue_metrics(self.name, examples.labels, given)
            for metric, value in metrics.items():
                measures[f"{split} {metric}"] = value
        return measures


def load_tokenizer(file: Path) -> Tokenizer:
    """Loads what `studies.expert_choice` has saved.

    Raises:
        FileNotFoundError: There is no such file.
        FileError: It is broken.
    """
    if not file.exists():
        raise FileNotFoundError(
            f"{file}: expected the tokenizer of the language models"
        )
    with reading(file, "a tokenizer of the package tokenizers"):
        return Tokenizer.from_file(str(file))


def encode(
    tokenizer: Tokenizer, examples: GlueExamples, length: int
) -> dict[str, np.ndarray]:
    """Returns what a language model takes, cut or padded to a length."""
    rows = sentence_rows(tokenizer, examples.sentences, length)
    return {"token_ids": rows.token_ids, "padding_mask": rows.padding_mask}


def first_examples(examples: GlueExamples, count: int | None) -> GlueExamples:
    """Returns the first examples, or all for `None`."""
    labels = examples.labels
    return GlueExamples(
        tuple(texts[:count] for texts in examples.sentences),
        None if labels is None else labels[:count],
    )


def main(arguments: list[str] | None = None) -> None:
    """Runs the fine-tuning from a command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--from",
        dest="files",
        type=Path,
        nargs="+",
        required=True,
        metavar="FILE",
        help="models that studies.expert_choice has saved",
    )
    parser.add_argument(
        "--glue", type=Path, required=True, help="folder of GLUE, or the task's"
    )
    parser.add_argument("--task", choices=TASKS, default="rte")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--length", type=int, default=128, help="in tokens")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--smoke", action="store_true", help="one epoch of 32 examples"
    )
    options = parser.parse_args(arguments)
    count = 32 if options.smoke else None
    splits = {
        split: first_examples(
            read_glue(options.glue, options.task, split), count
        )
        for split in ("train", *task_of(options.task).development_splits)
    }
    study = FineTuning(
        options.task,
        splits.pop("train"),
        splits,
        1 if options.smoke else options.epochs,
        options.batch_size,
        options.learning_rate,
        options.length,
    )
    plan: list[Settings] = [
        {
            "model": file.stem,
            "file": str(file),
            "task": options.task,
            "epochs": study.epochs,
            "learning rate": study.learning_rate,
            "length": study.length,
            "seed": seed,
        }
        for seed in range(options.seeds)
        for file in options.files
    ]
    results = run_all(plan, study.run, options.out)
    measures = [
        f"{split} {metric}"
        for split in splits
        for metric in task_of(options.task).metrics
    ]
    print(summary(results, ["model", "task"], dict.fromkeys(measures, 4)))


if __name__ == "__main__":
    try:
        main()
    except (FileError, FileNotFoundError) as error:
        raise SystemExit(f"Error: {error}") from None
