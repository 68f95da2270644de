from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from recsys.backend import start_backend
from recsys.commands.shared_options import SplitName
from recsys.errors.shown import printable

_NO = 3


def promote(
    old: Annotated[
        Path,
        typer.Option(help="The served model: a run, an export, or versions."),
    ],
    new: Annotated[Path, typer.Option(help="The new model, likewise.")],
    data: Annotated[
        str, typer.Option(help="Data folder of a day after training.")
    ],
    out: Annotated[
        Path, typer.Option(help="New folder for the verdict and its page.")
    ],
    rules: Annotated[
        Path | None, typer.Option(help="YAML file of rules. Default: careful.")
    ] = None,
    split: SplitName = "test",
) -> None:
    """Decide whether a new model takes over from the served one.

    The exit status is 0 for yes and 3 for no.
    """
    with suppress(ValueError):  # Runs are exported in a process of their own.
        start_backend("tensorflow")
    from recsys.api.promote import promote
    from recsys.reporting.promotion_page import reasons_in_words

    content = promote(old, new, data, out, rules, split)
    checks = content["checks"]
    print(f"Verdict: {content['verdict']} ({len(checks)} checks)")
    for reason in reasons_in_words(content):
        print(f"  no: {printable(reason)}")
    print(f"Page: {printable(str(out / 'promotion.html'))}")
    if content["reasons"]:
        raise typer.Exit(_NO)
