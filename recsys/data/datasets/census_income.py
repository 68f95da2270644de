from pathlib import Path

import numpy as np
import pandas as pd
from rich.progress import Progress

from recsys.data.columns import parse
from recsys.data.dataset import Dataset
from recsys.data.datasets.download import check_release
from recsys.data.datasets.download import find_file
from recsys.data.formats.lines import parse_lines
from recsys.data.formats.packed_file import read_packed
from recsys.data.schema import Schema

WEIGHT = "instance weight"
# In the order of a line's fields, named as in `census-income.names`.
COLUMNS = (
    "age",
    "class of worker",
    "detailed industry recode",
    "detailed occupation recode",
    "education",
    "wage per hour",
    "enroll in edu inst last wk",
    "marital stat",
    "major industry code",
    "major occupation code",
    "race",
    "hispanic origin",
    "sex",
    "member of a labor union",
    "reason for unemployment",
    "full or part time employment stat",
    "capital gains",
    "capital losses",
    "dividends from stocks",
    "tax filer stat",
    "region of previous residence",
    "state of previous residence",
    "detailed household and family stat",
    "detailed household summary in household",
    WEIGHT,
    "migration code-change in msa",
    "migration code-change in reg",
    "migration code-move within reg",
    "live in this house 1 year ago",
    "migration prev res in sunbelt",
    "num persons worked for employer",
    "family members under 18",
    "country of birth father",
    "country of birth mother",
    "country of birth self",
    "citizenship",
    "own business or self employed",
    "fill inc questionnaire for veteran's admin",
    "veterans benefits",
    "weeks worked in year",
    "year",
    "income",
)
NUMBERS = {
    "age",
    "wage per hour",
    "capital gains",
    "capital losses",
    "dividends from stocks",
    "num persons worked for employer",
    "weeks worked in year",
}
RELEASE = {"training examples": 199_523, "test examples": 99_762}
_NO_FEATURES = {"education", "marital stat", WEIGHT, "income"}
# A space after a comma belongs to the field: a choice would be one per field.
_LINE = ",".join(
    [r"([^,\r\n]*)"] * (len(COLUMNS) - 1) + [r" ?(- 50000|50000\+)\."]
)


def census_income(
    raw_dir: Path, seed: int, progress: Progress, weights: str = "none"
) -> Dataset:
    """Prepares Census-Income (KDD) as two tasks, income and never_married.

    As in the MMoE paper: income is whether a person has more than 50,000
    dollars, never_married whether the marital status is "Never married"; the
    education and the marital status are no features, which leaves 7 numbers
    and 31 ids; the test file is halved at random into validation and test.
    `?`, where the census knows nothing, is a value of its own.

    Args:
        raw_dir: Folder with `census-income.data` and `census-income.test`, or
            either with `.gz` behind it.
        seed: Seed of the halves of the test file.
        progress: Shows how far reading is.
        weights: Whether an example counts as many times as the people that it
            stands for, in losses and metrics: `"instance"`. The paper does not
            say that it does so: `"none"` (default).

    Returns:
        The data set.

    Raises:
        DataError: A file is missing or broken.
        ValueError: `weights` is something else.

    References:
        Ma, Zhao, Yi, Chen, Hong, Chi. Modeling Task Relationships in
        Multi-task Learning with Multi-gate Mixture-of-Experts. KDD 2018,
        section 6.1 (census-income data, group 1).
        Lane, Kohavi. Census-Income (KDD). UCI Machine Learning Repository,
        2000 (`census-income.names` for the columns and the weight).
    """
    if weights not in ("none", "instance"):
        raise ValueError(
            "`weights` must be 'none' or 'instance'. "
            f"Received: weights={weights!r}"
        )
    schema = Schema(
        "census-income",
        {
            name: "number" if name in NUMBERS else "id"
            for name in COLUMNS
            if name not in _NO_FEATURES
        },
        {"income": "binary", "never_married": "binary"},
        weight=WEIGHT if weights == "instance" else None,
    )
    tables = {}
    for part in ("data", "test"):
        name = f"census-income.{part}"
        file = find_file(raw_dir, name, f"{name}.gz")
        examples = read_examples(file, progress)
        tables[part] = parse(examples, schema.columns, file)
    train, test = tables["data"], tables["test"]
    counts = dict(zip(RELEASE, (len(train), len(test)), strict=True))
    check_release("census-income", raw_dir, counts, RELEASE)
    order = np.random.default_rng(seed).permutation(len(test))
    validation, tested = np.array_split(order, 2)
    return Dataset(
        schema,
        {
            "train": train,
            "validation": test.iloc[validation].reset_index(drop=True),
            "test": test.iloc[tested].reset_index(drop=True),
        },
    )


def read_examples(file: Path, progress: Progress) -> pd.DataFrame:
    """Reads one of the two files, every field a text but for the labels.

    Args:
        file: Lines of 42 fields with a comma and a space between them.
        progress: Shows how many bytes are done.

    Returns:
        The columns of the file, income as 0 or 1, and never_married.

    Raises:
        DataError: A line has another form.
    """
    expected = f"{len(COLUMNS)} fields, the last one `- 50000.` or `50000+.`"
    lines = [
        [field.decode("latin-1").strip() for field in fields]
        for chunk in parse_lines(
            read_packed(file), _LINE, expected, file, progress
        )
        for fields in chunk
    ]
    examples = pd.DataFrame(lines, columns=list(COLUMNS), dtype=object)
    married = examples["marital stat"] != "Never married"
    return examples.assign(
        income=(examples["income"] == "50000+").astype(float),
        never_married=(~married).astype(float),
    )
