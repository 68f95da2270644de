from typing import Annotated

import typer

from recsys.backend import start_backend
from recsys.commands.options import named_values
from recsys.commands.shared_options import Backend
from recsys.commands.shared_options import RunFolder


def recommend(
    run: RunFolder,
    user: Annotated[str, typer.Option(help="Id of the user.")],
    top: Annotated[int, typer.Option(help="Items to recommend.")] = 10,
    score: Annotated[
        str | None,
        typer.Option(
            help="Ranking formula, such as 'watch^0.7 * rating'. Default: the "
            "task of retrieval."
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Data folder. Default: that of the run."),
    ] = None,
    exclude_seen: Annotated[
        bool,
        typer.Option(
            "--exclude-seen",
            help="Leave out the items of the user's training rows.",
        ),
    ] = False,
    candidates: Annotated[
        int, typer.Option(help="Items to retrieve and rank.")
    ] = 100,
    feature: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Value of a feature, instead of the one in the data; of a "
            "list, with | between its values.",
        ),
    ] = None,
    rerank: Annotated[
        str | None,
        typer.Option(
            help="Make the items of the list differ from each other: mmr "
            "(maximal marginal relevance) or dpp (determinantal point process)."
        ),
    ] = None,
    diversity: Annotated[
        float,
        typer.Option(help="How much --rerank counts: 0 (not at all) to 1."),
    ] = 0.3,
    backend: Backend = None,
) -> None:
    """Recommend items to a user: retrieve candidates and rank them."""
    features = named_values("feature", list(feature or []))
    start_backend(backend)
    from recsys.api.recommend import recommend
    from recsys.commands.recommendation_table import print_recommendations

    options = (score, data, exclude_seen, candidates, features)
    recommendations = recommend(run, user, top, *options, rerank, diversity)
    print_recommendations(recommendations)
