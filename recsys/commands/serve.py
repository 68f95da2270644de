from pathlib import Path
from typing import Annotated

import typer

_INTERRUPTED = 130


def serve(
    model: Annotated[
        Path,
        typer.Option(help="Folder of an exported model, or of its versions."),
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 picks a free one.")
    ] = 8501,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the model. Default: that of the folder."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the bearer token required of requests. Default: "
            "the environment variable RECSYS_SERVE_TOKEN, if set."
        ),
    ] = None,
    max_batch_rows: Annotated[
        int, typer.Option(help="Maximum rows per batch.")
    ] = 1024,
    batch_wait_ms: Annotated[
        float,
        typer.Option(help="Milliseconds a batch waits for more requests."),
    ] = 1.0,
    max_request_rows: Annotated[
        int, typer.Option(help="Maximum rows per request.")
    ] = 8192,
    max_request_values: Annotated[
        int,
        typer.Option(
            help="Maximum values per request: rows times width of its inputs."
        ),
    ] = 2**19,
    max_body_mib: Annotated[
        float, typer.Option(help="Maximum size of a request, in MiB.")
    ] = 4.0,
    max_concurrency: Annotated[
        int, typer.Option(help="Maximum concurrent requests.")
    ] = 128,
    max_connections: Annotated[
        int, typer.Option(help="Maximum connections.")
    ] = 1024,
    request_timeout: Annotated[
        float, typer.Option(help="Timeout of a request, in seconds.")
    ] = 30.0,
    head_timeout: Annotated[
        float,
        typer.Option(help="Timeout of a silent connection, in seconds."),
    ] = 10.0,
    poll_seconds: Annotated[
        float, typer.Option(help="Seconds between checks for new versions.")
    ] = 1.0,
    index: Annotated[
        str | None,
        typer.Option(
            help="Search index of two stages: brute-force, hnsw or ivf. "
            "Default: as exported."
        ),
    ] = None,
    shed: Annotated[
        bool,
        typer.Option(
            "--shed",
            help="Spend fewer experts per row under load, on a model trained "
            "with --gate budget.",
        ),
    ] = False,
    shed_wait_ms: Annotated[
        float,
        typer.Option(
            help="Milliseconds a request should wait at most; --shed lowers "
            "budgets from half of it on."
        ),
    ] = 100.0,
    shed_floor: Annotated[
        float, typer.Option(help="Lowest budget that --shed sets.")
    ] = 1.0,
    versions: Annotated[
        str,
        typer.Option(
            help="Versions to serve: latest, all, or numbers such as 3,4; "
            "besides, those that labels.json names."
        ),
    ] = "latest",
    keep_versions: Annotated[
        int,
        typer.Option(help="Number of versions that latest means."),
    ] = 1,
    promoted_only: Annotated[
        bool,
        typer.Option(
            "--promoted-only",
            help="Serve only versions that recsys promote has accepted.",
        ),
    ] = False,
    access_log: Annotated[
        str | None,
        typer.Option(
            help="File to log requests to, a line of JSON each; - for the "
            "standard error."
        ),
    ] = None,
    log_requests: Annotated[
        str | None,
        typer.Option(
            help="Folder to write a sample of requests and predictions to, "
            "as Parquet."
        ),
    ] = None,
    sample: Annotated[
        float, typer.Option(help="Share of requests that is logged.")
    ] = 0.01,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(
            help="Origin of web pages that may ask, such as "
            "https://shop.example; * for all. Repeatable."
        ),
    ] = None,
) -> None:
    """Serve an exported model over HTTP, as TensorFlow Serving does."""
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
            shed=shed,
            shed_wait_ms=shed_wait_ms,
            shed_floor=shed_floor,
            versions=versions,
            keep_versions=keep_versions,
            promoted_only=promoted_only,
            access_log=access_log,
            log_requests=log_requests,
            sample=sample,
            cors_origins=tuple(cors_origin or ()),
        )
    except KeyboardInterrupt:
        end_if_computing(_INTERRUPTED)
        raise
    end_if_computing(0)
