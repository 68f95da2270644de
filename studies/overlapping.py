"""The experiments of "More Experts Than Galaxies" (Shaier et al., ICLR 2025).

    python -m studies.overlapping --figure 4 --data cifar-10-batches-bin \
        --seeds 3 --out runs/overlapping-4
    python -m studies.overlapping --figure 9 --data wikitext-2 --out runs/gpt \
        --preset gpt2_base_en
    python -m studies.overlapping --figure 33 --out runs/sarcos --smoke

The paper has no tables: what its figures show is written here as tables.

    2           masks and activations over the similarity of inputs
    3           how often the units of random networks are active
    4, 11       perceptrons on CIFAR-10 beside ten that they are compared with
    5 to 8      ViT and MLP-Mixer on SVHN, CIFAR-10, CIFAR-100, Tiny ImageNet
    9, 10       GPT-2 on WikiText and CodeParrot; 12 to 32 are variants
    33          perceptrons on SARCOS; without `--data`, on a planted stand-in
    34          activation functions
    keep-rate   the share of units that are active (not in the paper)
    layers      which of the layers are masked (not in the paper)

Settings are the published ones unless options say otherwise; what differs is
written below the table. Models: "overlapping" is the paper's COMET, "routed"
by a fixed random projection of the input; `studies.perceptrons` and
`studies.feed_forward` name the others. "best", "last" and "mean" are of the
test after each epoch: the highest accuracy (the lowest error, or perplexity),
that of the last epoch, and the mean over all of them, in which whoever learns
faster is ahead. Each column is a mean and its standard error over the seeds.

Runs are kept in `OUT/results.json`: a study that is interrupted goes on where
it was. The table is written to `OUT/table.md`.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from recsys.errors import FileError
from recsys.files.atomic import replacing
from studies.overlapping_study import Options
from studies.overlapping_study import Study
from studies.runs import run_all
from studies.runs import summary

MakeStudy = Callable[[Options], Study]


def figures() -> dict[str, MakeStudy]:
    """Returns what makes the study of each figure, by its number."""
    # Each takes seconds to import, KerasHub most of all.
    from studies.mask_overlap import overlap_study
    from studies.neuron_use import use_study
    from studies.overlapping_gpt import GPT_FIGURES
    from studies.overlapping_gpt import gpt_study
    from studies.overlapping_perceptrons import activation_study
    from studies.overlapping_perceptrons import layer_study
    from studies.overlapping_perceptrons import perceptron_study
    from studies.overlapping_vision import DATA_OF
    from studies.overlapping_vision import vision_study

    return {
        "2": overlap_study,
        "3": use_study,
        "34": activation_study,
        "layers": layer_study,
        **{
            figure: partial(perceptron_study, figure)
            for figure in ("4", "11", "33", "keep-rate")
        },
        **{figure: partial(vision_study, figure) for figure in DATA_OF},
        **{figure: partial(gpt_study, figure) for figure in GPT_FIGURES},
    }


def show(study: Study, out: Path) -> str:
    """Runs what is missing of a study, and writes its table.

    Args:
        study: The study.
        out: Folder of the results.

    Returns:
        The table as Markdown, with what is not as published below it.
    """
    results = run_all(study.plan, study.run, out)
    table = summary(results, study.by, study.digits)
    lines = [f"{study.title}:", "", table]
    if study.notes:
        lines += ["", "Not as published, or not said:", ""]
        lines += [f"* {note}" for note in study.notes]
    text = "\n".join(lines) + "\n"
    with replacing(out / "table.md") as file:
        file.write_text(text, encoding="utf-8")
    return text


def parse_options(
    arguments: list[str] | None = None,
) -> tuple[str, Path, Options]:
    """Reads the command line.

    Args:
        arguments: Its words, `None` for those of the process.

    Returns:
        The figure, the folder of the results, and the options.
    """
    parser = argparse.ArgumentParser(
        prog="python -m studies.overlapping",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--figure", "--table", required=True, help="number or name, see above")
    add("--out", type=Path, required=True, help="folder of the results")
    add("--data", type=Path, help="folder of the figure's download")
    add("--second-data", type=Path, help="CIFAR-100, for figure 3")
    add("--preset", type=Path, help="KerasHub preset with GPT-2's tokenizer")
    add("--seeds", type=int, default=3, help="trainings of each model")
    add("--epochs", type=int)
    add("--batch-size", type=int)
    add("--learning-rate", type=float)
    add("--widths", type=int, nargs="+", help="units of a hidden layer")
    add("--keep-rates", type=float, nargs="+", help="shares of active units")
    add("--models", nargs="+", help="those that are compared")
    add("--most-rows", type=int, help="rows of each split")
    add("--networks", type=int, help="random networks (figures 2 and 3)")
    add("--depth", type=int, help="blocks of a ViT, Mixer or GPT")
    add("--mixed-precision", action="store_true", help="float16 (GPT)")
    add("--smoke", action="store_true", help="tiny settings, for a test")
    given = vars(parser.parse_args(arguments))
    figure, out = given.pop("figure"), given.pop("out")
    is_smoke = given.pop("smoke")
    options = Options(**given)
    if is_smoke:
        options = tiny(options)
    return figure, out, options


def tiny(options: Options) -> Options:
    """The same code on settings that take seconds.

    Args:
        options: Where to read, and which models.
    """
    return replace(
        options,
        seeds=1,
        epochs=1,
        batch_size=8,
        widths=(16,),
        keep_rates=(0.5,),
        most_rows=16,
        networks=2,
        depth=1,
    )


def main(arguments: list[str] | None = None) -> None:
    """Runs the study of one figure and prints its table."""
    figure, out, options = parse_options(arguments)
    studies = figures()
    if figure not in studies:
        raise ValueError(
            f"`figure` must be one of {sorted(studies)}. Received: {figure!r}"
        )
    print(show(studies[figure](options), out))


if __name__ == "__main__":
    try:
        main()
    except (FileError, FileNotFoundError, ValueError) as error:
        raise SystemExit(f"Error: {error}") from None
