from pathlib import Path
from typing import Annotated

import typer

_INTERRUPTED = 130


def serve(
    model: Annotated[
        Path,
        typer.Option(help="Folder of the exported model, or of its versions."),
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes a free one.")
    ] = 8501,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the model; that of the folder."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File of the token that requests must bear. Unless given, "
            "the environment variable RECSYS_SERVE_TOKEN may hold one."
        ),
    ] = None,
    max_batch_rows: Annotated[
        int, typer.Option(help="Most rows that are computed together.")
    ] = 1024,
    batch_wait_ms: Annotated[
        float, typer.Option(help="How long a batch waits for more requests.")
    ] = 1.0,
    max_request_rows: Annotated[
        int, typer.Option(help="Most rows of a request.")
    ] = 8192,
    max_request_values: Annotated[
        int,
        typer.Option(
            help="Most values of a request: rows times the width of its inputs."
        ),
    ] = 2**19,
    max_body_mib: Annotated[
        float, typer.Option(help="Most MiB of a request.")
    ] = 4.0,
    max_concurrency: Annotated[
        int, typer.Option(help="Most requests at a time.")
    ] = 128,
    max_connections: Annotated[
        int, typer.Option(help="Most connections at a time.")
    ] = 1024,
    request_timeout: Annotated[
        float, typer.Option(help="Seconds until a request is given up.")
    ] = 30.0,
    head_timeout: Annotated[
        float,
        typer.Option(help="Seconds until a silent connection is ended."),
    ] = 10.0,
    poll_seconds: Annotated[
        float, typer.Option(help="Seconds between looks for a new version.")
    ] = 1.0,
    index: Annotated[
        str | None,
        typer.Option(
            help="What two stages search with: brute-force, hnsw or ivf. "
            "Unless given, what they were exported with."
        ),
    ] = None,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Log each request.")
    ] = False,
) -> None:
    """Serve an exported model by HTTP, as TensorFlow Serving does."""
    from recsys.api.serve import end_if_computing
    from recsys.api.serve import read_token
    from recsys.api.serve import serve

    try:
        serve(
            model,
            host=host,
            port=port,
            name=name,
            token=read_token(token_file),
            max_batch_rows=max_batch_rows,
            batch_wait_ms=batch_wait_ms,
            max_request_rows=max_request_rows,
            max_request_values=max_request_values,
            max_body_mib=max_body_mib,
            max_concurrency=max_concurrency,
            max_connections=max_connections,
            request_timeout=request_timeout,
            head_timeout=head_timeout,
            poll_seconds=poll_seconds,
            index=index,
            access_log=access_log,
        )
    except KeyboardInterrupt:
        end_if_computing(_INTERRUPTED)
        raise
    end_if_computing(0)
