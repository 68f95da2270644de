"""GPT-2 with overlapping experts: figures 9, 10 and 12 to 32.

Left open by the paper, and as in the code that it builds on: rows of 128
tokens, gradients clipped at the norm 1, no decay of biases and norms, the
learning rates of figures 12 to 17 and of 24 to 32. Figures 9 and 10 seem to
have a tokenizer of "HuggingFace" that is not named, the others GPT-2's; here
all have GPT-2's, or bytes. A training ends after its epochs, the published
ones at the latest after 24 hours.
"""

import itertools
import math
import time
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import keras_hub
import numpy as np

from recsys.errors import DataError
from studies.codeparrot import read_codeparrot
from studies.feed_forward import FeedForward
from studies.gpt import GPT_SIZES
from studies.gpt import gpt
from studies.overlapping_study import Options
from studies.overlapping_study import Study
from studies.runs import Measures
from studies.runs import Settings
from studies.tokens import byte_tokenizer
from studies.wikitext import read_wikitext

LENGTH = 128  # Of the code that the paper builds on; it names none.
EPOCHS = 3
BATCH_SIZE = 32
ACCUMULATED = 8  # Batches of a step: 256 rows.
LEARNING_RATE = 5e-4
WEIGHT_DECAY = 0.1
WARMUP_STEPS = 1000
KEEP_RATE = 0.5
DEFAULT_KINDS = ("overlapping", "standard")


@dataclass(frozen=True)
class GPTFigure:
    """What one of the paper's figures trains.

    Attributes:
        text: `"wikitext"` or `"codeparrot"`.
        sizes: Names of sizes of GPT-2.
        learning_rate: The largest one.
        accumulated: Batches of 32 rows a step.
    """

    text: str
    sizes: tuple[str, ...] = tuple(GPT_SIZES)
    learning_rate: float = LEARNING_RATE
    accumulated: int = ACCUMULATED


def _figures() -> dict[str, GPTFigure]:
    """Each of figures 12 to 29 shows one size on one of the texts.

    Of figures 12 to 17 the paper names no learning rate; 18 to 23 are said to
    have ten times as much, "from 1e-4 to 1e-3".
    """
    figures = {"9": GPTFigure("wikitext"), "10": GPTFigure("codeparrot")}
    pairs = list(itertools.product(("wikitext", "codeparrot"), GPT_SIZES))
    variants: list[tuple[int, dict[str, Any]]] = [
        (12, {"learning_rate": 1e-4}),
        (18, {"learning_rate": 1e-3}),
        (24, {"accumulated": 2}),
    ]
    for first, changes in variants:
        for number, (text, size) in enumerate(pairs, start=first):
            figures[str(number)] = GPTFigure(text, (size,), **changes)
    # In float32.
    figures["30"] = GPTFigure("wikitext", ("small",))
    figures["31"] = GPTFigure("wikitext", ("medium",))
    figures["32"] = GPTFigure("codeparrot", ("small",))
    return figures


GPT_FIGURES = _figures()
FLOAT32_FIGURES = ("30", "31", "32")


@dataclass(frozen=True)
class TokenRows:
    """Rows of `length + 1` tokens, each token but the first predicted once.

    Attributes:
        train: Int32 array `(rows, length + 1)`.
        test: Likewise.
        vocabulary_size: Number of tokens.
        notes: Where it is not the published text or tokenizer.
    """

    train: np.ndarray
    test: np.ndarray
    vocabulary_size: int
    notes: list[str]


def read_token_rows(
    text: str, options: Options, length: int = LENGTH
) -> TokenRows:
    """Reads a text and cuts it into rows of tokens.

    Args:
        text: `"wikitext"`, with its validation split for training where the
            folder has no training split; or `"codeparrot"`, the last tenth
            of whose files are the test.
        options: Data, preset and most rows.
        length: Tokens that are predicted in a row.

    Raises:
        FileError: A file is missing or broken.
    """
    encode, vocabulary_size, notes = _tokenizer(options.preset)
    if text == "codeparrot":
        texts = read_codeparrot(options.folder())
        start = max(1, len(texts) * 9 // 10)
        train, test = "\n".join(texts[:start]), "\n".join(texts[start:])
    else:
        train, test, more = _wikitext(options.folder())
        notes += more
    rows = [
        _rows(encode(part), length)[: options.most_rows]
        for part in (train, test)
    ]
    for name, part in zip(("training", "test"), rows, strict=True):
        if not len(part):
            raise DataError.at(
                options.folder(), f"{length + 1} tokens for the {name}", "fewer"
            )
    if options.most_rows is not None:
        notes.append(f"at most {options.most_rows:,} rows of each split")
    return TokenRows(rows[0], rows[1], vocabulary_size, notes)


def _wikitext(folder: Path) -> tuple[str, str, list[str]]:
    test = read_wikitext(folder, "test")
    try:
        return read_wikitext(folder, "train"), test, []
    except FileNotFoundError:
        note = "the folder has no training split: trained on the validation's"
        return read_wikitext(folder, "valid"), test, [note]


def _tokenizer(
    preset: Path | None,
) -> tuple[Callable[[str], Any], int, list[str]]:
    if preset is not None:
        tokenizer = keras_hub.models.GPT2Tokenizer.from_preset(str(preset))
        return tokenizer, tokenizer.vocabulary_size(), []
    by_bytes = byte_tokenizer()
    note = (
        "tokens are bytes, for no preset with GPT-2's tokenizer is given: "
        "perplexities are those of a byte"
    )

    def encode(text: str) -> list[int]:
        ids: list[int] = by_bytes.encode(text, add_special_tokens=False).ids
        return ids

    return encode, by_bytes.get_vocab_size(), [note]


def _rows(tokens: Any, length: int) -> np.ndarray:
    """Each row begins with the token that the one before ends with."""
    ids = np.asarray(tokens, "int32")
    if len(ids) <= length:
        return np.zeros((0, length + 1), "int32")
    windows = np.lib.stride_tricks.sliding_window_view(ids, length + 1)
    return windows[::length].copy()


@dataclass(frozen=True)
class Length:
    """How long a training is: Keras's schedules count batches, not steps.

    Attributes:
        batches: Those of all epochs.
        accumulated: Batches that make a step; as many as an epoch has, where
            it has fewer than wanted.
        warmup: Batches of the warm-up: 1,000 steps as published, or a tenth
            of the training, where that is less.

    Example:
    >>> settings = {"epochs": 6, "batch size": 4, "accumulated": 8}
    >>> Length.of(800, settings)
    Length(batches=1200, accumulated=8, warmup=120)
    """

    batches: int
    accumulated: int
    warmup: int

    @classmethod
    def of(cls, num_rows: int, settings: Mapping[str, Any]) -> "Length":
        """Measures a training.

        Args:
            num_rows: Rows of the training.
            settings: "epochs", "batch size" and "accumulated".
        """
        batches = -(-num_rows // settings["batch size"])
        accumulated = min(settings["accumulated"], batches)
        total = settings["epochs"] * batches
        warmup = max(1, min(WARMUP_STEPS * accumulated, total // 10))
        return cls(total, accumulated, warmup)

    def notes(self) -> list[str]:
        """Says whether the warm-up is shorter than published."""
        steps = self.warmup / self.accumulated
        if steps >= WARMUP_STEPS:
            return []
        return [
            f"a warm-up of {steps:.3g} steps, a tenth of the training "
            f"(published {WARMUP_STEPS:,})"
        ]


def train_gpt(
    model: keras.Model, rows: TokenRows, settings: Mapping[str, Any]
) -> Measures:
    """Trains with AdamW, warmup and a cosine schedule.

    Args:
        model: From tokens to logits of the next one.
        rows: The text.
        settings: "learning rate", "epochs", "batch size" and "accumulated",
            how many batches make a step.

    Returns:
        The lowest perplexity of the test after an epoch, which is what the
        paper's figures name, and the last one; the weights that are trained
        and the seconds.
    """
    length = Length.of(len(rows.train), settings)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0,
        max(1, length.batches - length.warmup),
        warmup_target=settings["learning rate"],
        warmup_steps=length.warmup,
    )
    optimizer = keras.optimizers.AdamW(
        schedule,
        weight_decay=WEIGHT_DECAY,
        global_clipnorm=1.0,
        gradient_accumulation_steps=(
            length.accumulated if length.accumulated > 1 else None
        ),
    )
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss)
    start = time.perf_counter()
    history = model.fit(
        rows.train[:, :-1],
        rows.train[:, 1:],
        batch_size=settings["batch size"],
        epochs=settings["epochs"],
        validation_data=(rows.test[:, :-1], rows.test[:, 1:]),
        verbose=0,
    ).history["val_loss"]
    return {
        "best": math.exp(min(history)),
        "last": math.exp(history[-1]),
        "mean": math.exp(float(np.mean(history))),
        "weights": sum(int(np.prod(w.shape)) for w in model.trainable_weights),
        "seconds": round(time.perf_counter() - start, 1),
    }


def gpt_study(figure: str, options: Options) -> Study:
    """Figures 9, 10 and 12 to 32: perplexity of GPT-2 in three sizes.

    Args:
        figure: Its number.
        options: What is made smaller. With `widths`, tokens are as wide, 64
            a head, and `depth` blocks (2 if it is not given) stand for the
            published sizes.
    """
    given = GPT_FIGURES[figure]
    rows = read_token_rows(given.text, options)
    rate = (options.keep_rates or [KEEP_RATE])[0]
    sizes = {name: GPT_SIZES[name] for name in given.sizes}
    if options.widths is not None:
        sizes = {
            f"width {width}": (options.depth or 2, width, max(1, width // 64))
            for width in options.widths
        }
    plan: list[Settings] = [
        {
            "figure": figure,
            "size": size,
            "depth": sizes[size][0],
            "model": kind,
            "keep rate": rate,
            "epochs": options.epochs or EPOCHS,
            "learning rate": options.learning_rate or given.learning_rate,
            "batch size": options.batch_size or BATCH_SIZE,
            "accumulated": given.accumulated,
            "precision": _precision(options),
            "rows": len(rows.train),
            "seed": seed,
        }
        for seed in range(options.seeds)
        for size in sizes
        for kind in options.models or DEFAULT_KINDS
    ]

    def run(settings: Settings) -> Measures:
        values: Mapping[str, Any] = settings
        keras.utils.set_random_seed(values["seed"])
        before = keras.config.dtype_policy()
        keras.config.set_dtype_policy(values["precision"])
        try:
            model = gpt(
                rows.vocabulary_size,
                rows.train.shape[1] - 1,
                FeedForward(values["model"], rate, dropout=0.1),
                *sizes[values["size"]],
            )
            return train_gpt(model, rows, values)
        finally:
            keras.config.set_dtype_policy(before)

    return Study(
        f"GPT-2 on {given.text}: perplexity of the test",
        plan,
        run,
        by=["size", "model", "weights"],
        digits=dict.fromkeys(("best", "last", "mean"), 2),
        notes=[
            *_notes(figure, options),
            *Length.of(len(rows.train), plan[0]).notes(),
            *rows.notes,
        ],
    )


def _precision(options: Options) -> str:
    return "mixed_float16" if options.mixed_precision else "float32"


def _notes(figure: str, options: Options) -> list[str]:
    given = GPT_FIGURES[figure]
    notes = options.differing(
        {
            "epochs": EPOCHS,
            "batch_size": BATCH_SIZE,
            "learning_rate": given.learning_rate,
            "keep_rates": [KEEP_RATE],
            "widths": ", ".join(
                str(GPT_SIZES[name][1]) for name in given.sizes
            ),
            "depth": ", ".join(str(GPT_SIZES[name][0]) for name in given.sizes),
        }
    )
    published = "float32" if figure in FLOAT32_FIGURES else "mixed_float16"
    if _precision(options) != published:
        notes.append(f"{_precision(options)} (published {published})")
    notes.append(f"rows of {LENGTH} tokens (not published)")
    return notes
