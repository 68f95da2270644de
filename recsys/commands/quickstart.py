from pathlib import Path
from typing import Annotated

import typer

from recsys.backend import start_backend
from recsys.commands.options import named_values
from recsys.commands.shared_options import Backend


def quickstart(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="Table with a row for each event: Parquet or text. Default: "
            "generated interactions."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="New folder for the data and the run.")
    ] = Path("quickstart"),
    task: Annotated[
        list[str] | None,
        typer.Option(help="Label. Default: click, rating and the like."),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(help="Column with the user. Default: by its name."),
    ] = None,
    item: Annotated[
        str | None,
        typer.Option(help="Column with the item. Default: by its name."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=KIND",
            help="Kind of a feature, where another one is inferred: id, "
            "number and so on; none leaves the column out.",
        ),
    ] = None,
    epochs: Annotated[int, typer.Option(help="Most epochs.")] = 5,
    backend: Backend = None,
) -> None:
    """Infer what a table's columns are, train, and recommend."""
    start_backend(backend)
    import pandas as pd

    from recsys.api.recommender import Recommender
    from recsys.commands.metrics_table import print_metrics
    from recsys.commands.recommendation_table import print_recommendations
    from recsys.data import read_table
    from recsys.data import synthetic
    from recsys.data.schema_names import new_task_names

    if file is None:
        splits = synthetic(20_000, num_users=500, num_items=400).splits
        rows = pd.concat(splits.values(), ignore_index=True)
    else:
        rows = read_table(file)
    renamed = new_task_names(map(str, rows), task or ())
    for column, name in renamed.items():
        print(f"The column {column!r} is the task {name!r}.")
    rows = rows.rename(columns=renamed)
    recommender = Recommender(
        [renamed.get(name, name) for name in task or ()] or None,
        user,
        item,
        kinds={
            column: None if given == "none" else str(given)
            for column, given in named_values("kind", kind or []).items()
        },
        options={"epochs": epochs},
        folder=out,
    ).fit(rows)
    metrics = recommender.metrics_
    print_metrics({split: metrics[split] for split in ("validation", "test")})
    data, run = out / "data", out / "run"
    schema = recommender.schema
    if schema.user_id is not None and schema.item_id is not None:
        often = rows[schema.user_id].mode().iloc[0]
        print(f"For {schema.user_id} {often}, who has most rows:")
        print_recommendations(recommender.recommend(often, 5))
        print(f"For others: recsys recommend --run {run} --user ID")
    else:
        roles = {"user": schema.user_id, "item": schema.item_id}
        for role in [name for name, column in roles.items() if column is None]:
            print(f"No recommendations: name the {role}'s column by --{role}.")
    stages = "" if recommender.model.has_trained_tasks else "--two-stage "
    print(
        f"What the columns are is in {data / 'dataset.json'}. To correct it, "
        "and to train with other options:\n"
        f"  recsys train --data {data} --out NEW\n"
        "To serve it:\n"
        f"  recsys export {stages}--run {run} --out {out / 'served'}\n"
        f"  recsys serve --model {out / 'served'}"
    )
