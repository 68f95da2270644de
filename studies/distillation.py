r"""A fine-tuned BERT becomes a mixture of experts, and is taught by itself.

    python -m studies.distillation --glue FOLDER --task rte --out OUT \
        --gates hash top-k comet comet+ moesart --seeds 3
    python -m studies.distillation --squad FOLDER --task squad-v2.0 --out OUT
    python -m studies.distillation --task planted --out OUT

Tables 4 of COMET and 2 of MOESART, by the three steps of MoEBERT:

1. A BERT is fine-tuned on the task: that of `--preset`, else a small one of
   random weights, as the output says.
2. The neurons of each feed-forward layer are dealt out to experts by their
   importance to the fine-tuned model's loss: most of each expert are the most
   important ones, which all share.
3. The mixture is trained on the task, with `--distillation` times the distance
   of its layers and predictions to those of the fine-tuned model.

Beside the mixtures, `dense` is the fine-tuned model, and `narrow` and
`narrow-2` are dense ones with the most important neurons alone, as many as one
expert has and two have, trained as the mixtures are. 0 among the distillation
weights trains on the task alone.

The published settings are the defaults: 4 experts, each of a quarter of the
neurons, two thirds of them shared; Hash and COMET choose 1 expert (COMET, table
4), Top-k and MOESART 2 (MOESART, table 2). The metrics are those of the epoch
that is best on the development split, as published, `last` is the last epoch's
first one. `neurons` are those that a token meets in a layer, on average.

`--task planted` has a random teacher whose labels are few and partly wrong
(`studies/planted_teacher.py`); the teacher itself is made a mixture.

A larger machine has published sizes and pretrained weights, such as those of
keras-hub's `bert_base_en_uncased` in a folder:

    python -m studies.distillation --glue GLUE --task mnli --out OUT \
        --preset bert_base_en_uncased --epochs 25 --teacher-epochs 10 \
        --learning-rate 3e-5 --weight-decay 0.01 --distillation 5
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import keras

from recsys.files.atomic import replacing
from studies.bert import BertSize
from studies.distillation_tasks import GLUE_TASKS
from studies.distillation_tasks import SQUAD_TASKS
from studies.distillation_tasks import Reader
from studies.distillation_tasks import Task
from studies.distillation_tasks import first_rows
from studies.distillation_tasks import glue_task
from studies.distillation_tasks import planted
from studies.distillation_tasks import squad_task
from studies.runs import Measures
from studies.runs import Settings
from studies.runs import run_all
from studies.runs import summary
from studies.students import GATES
from studies.students import NARROW
from studies.students import Recipe
from studies.students import Teacher
from studies.students import prepare_teacher
from studies.students import train_student

TASKS = ("planted", *GLUE_TASKS, *SQUAD_TASKS)
DENSE = "dense"
BY = ("task", "model", "distillation")
DIGITS = {"epoch": 1, "neurons": 0, "seconds": 0}
SMOKE_SIZE = BertSize(1, 1, 8, 24, 0.0)
SMOKE_ROWS = 24


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing of the study, and prints its table.

    Args:
        words: The command line, `None` for that of the process.
    """
    given = _parse(words)
    print(f"The BERT: {_origin(given)}", flush=True)
    recipe = _recipe(given)

    @lru_cache(maxsize=1)
    def taught(seed: int) -> tuple[Task, Teacher]:
        keras.utils.set_random_seed(seed)
        task = _task(given, seed)
        return task, prepare_teacher(task, recipe)

    def run(settings: Settings) -> Measures:
        seed = int(settings["seed"] or 0)
        task, teacher = taught(seed)
        model, weight = str(settings["model"]), settings["distillation"]
        if model == DENSE:
            return teacher.measures
        # Whichever runs were made before, after an interruption.
        keras.utils.set_random_seed(seed)
        return train_student(model, float(weight or 0), teacher, task, recipe)

    results = run_all(_plan(given), run, given.out)
    measures = [str(name) for name in results if name not in (*BY, "seed")]
    digits = {name: DIGITS.get(name, 3) for name in measures}
    table = summary(results, BY, digits)
    with replacing(given.out / "table.md") as file:
        file.write_text(table + "\n", encoding="utf-8")
    print(table)


def _plan(given: argparse.Namespace) -> list[Settings]:
    """The dense model, and every student with each distillation weight."""
    students = [
        (model, weight)
        for model in (*given.narrow, *given.gates)
        for weight in given.distillation
    ]
    return [
        {
            "task": given.task,
            "model": model,
            "distillation": weight,
            "seed": seed,
        }
        for seed in range(given.seeds)
        for model, weight in [(DENSE, None), *students]
    ]


def _task(given: argparse.Namespace, seed: int) -> Task:
    size = SMOKE_SIZE if given.smoke else BertSize()
    if given.task == "planted":
        rows = (SMOKE_ROWS, SMOKE_ROWS) if given.smoke else (1_000, 4_000)
        return planted(size, *rows, seed=seed)
    reader = Reader(size, given.length, given.vocabulary_size, given.preset)
    if given.task in SQUAD_TASKS:
        version = given.task.removeprefix("squad-")
        task = squad_task(given.squad, version, reader)
    else:
        task = glue_task(given.glue, given.task, reader)
    return first_rows(task, SMOKE_ROWS) if given.smoke else task


def _recipe(given: argparse.Namespace) -> Recipe:
    recipe = Recipe(
        num_experts=given.num_experts,
        epochs=given.epochs,
        teacher_epochs=given.teacher_epochs,
        learning_rate=given.learning_rate,
        weight_decay=given.weight_decay,
        batch_size=given.batch_size,
        search_epochs=given.search_epochs,
    )
    if given.smoke:
        recipe = replace(recipe, epochs=1, teacher_epochs=1, search_epochs=1)
    return recipe


def _origin(given: argparse.Namespace) -> str:
    if given.task == "planted":
        return "random weights, those of the teacher that made the labels"
    if given.preset is None:
        return "random weights, trained on the task here"
    return f"the preset {given.preset}"


def _parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m studies.distillation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, defaults = parser.add_argument, Recipe()
    add("--task", required=True, choices=TASKS)
    add("--glue", type=Path, help="folder of GLUE, or of the task")
    add("--squad", type=Path, help="folder of train-v1.1.json and the like")
    add("--out", type=Path, required=True, help="folder of the results")
    add("--preset", type=Path, help="folder of a keras-hub preset of a BERT")
    add("--gates", nargs="*", choices=GATES, default=list(GATES))
    add("--narrow", nargs="*", choices=NARROW, default=list(NARROW))
    add("--distillation", type=float, nargs="+", default=[0.0, 1.0])
    add("--seeds", type=int, default=3, help="trainings of each model")
    add("--num-experts", type=int, default=defaults.num_experts)
    add("--epochs", type=int, default=defaults.epochs)
    add("--teacher-epochs", type=int, default=defaults.teacher_epochs)
    add("--learning-rate", type=float, default=defaults.learning_rate)
    add("--weight-decay", type=float, default=defaults.weight_decay)
    add("--batch-size", type=int, default=defaults.batch_size)
    add("--search-epochs", type=int, default=defaults.search_epochs)
    add("--length", type=int, default=128, help="tokens of a text, at most")
    add("--vocabulary-size", type=int, default=4_000, help="without a preset")
    add("--smoke", action="store_true", help="tiny settings, for a test")
    given = parser.parse_args(words)
    for option, tasks in (("glue", GLUE_TASKS), ("squad", SQUAD_TASKS)):
        if given.task in tasks and getattr(given, option) is None:
            parser.error(f"--task {given.task} needs --{option}, its folder")
    return given


if __name__ == "__main__":
    main()
