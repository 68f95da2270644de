"""The command line: it parses, calls the package and prints what came back."""

import os
import sys
import warnings
from typing import Annotated
from typing import Any

import typer

from recsys.commands.add_items import add_items
from recsys.commands.baseline import baseline
from recsys.commands.calibrate import calibrate
from recsys.commands.compare import compare
from recsys.commands.compress import compress
from recsys.commands.describe import describe
from recsys.commands.evaluate import evaluate
from recsys.commands.explain import explain
from recsys.commands.export import export
from recsys.commands.info import info
from recsys.commands.off_policy import off_policy
from recsys.commands.options import SingleOptions
from recsys.commands.predict import predict
from recsys.commands.prepare import prepare
from recsys.commands.prepare_help import PrepareHelp
from recsys.commands.promote import promote
from recsys.commands.quickstart import quickstart
from recsys.commands.recommend import recommend
from recsys.commands.report import report
from recsys.commands.reproduce import reproduce
from recsys.commands.rerun import rerun
from recsys.commands.serve import serve
from recsys.commands.train import train
from recsys.commands.tune import tune
from recsys.errors import FileError
from recsys.errors import RunError
from recsys.errors.memory import clear_memory_errors
from recsys.errors.missing_package import what_to_install
from recsys.errors.shown import printable
from recsys.errors.shown import shortened
from recsys.private_names import click_exception
from recsys.terminal.progress import shown_progress

ClickException: Any = click_exception()

_INTERRUPTED = 130
_MOST = 9000  # Letters of an error: paths may have 4,096.

# Any other is an error of this package.
_REPORTED = (
    ClickException,
    ValueError,
    TypeError,
    RunError,
    OSError,
    MemoryError,
)

app = typer.Typer(
    help="Train, evaluate and export sparse multi-task recommenders.",
    epilog="Set RECSYS_TRACEBACK=1 in the environment to see tracebacks of "
    "errors.",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 120},
)


def run(arguments: list[str]) -> int:
    """Runs the command line.

    Args:
        arguments: The words after `recsys`.

    Returns:
        0, or after an error, reported in one line: 2 where an argument is
        wrong, 1 where something else is; 130 after Ctrl-C.
    """
    try:
        with (
            clear_memory_errors(),
            warnings.catch_warnings(),
            shown_progress(),
        ):
            warnings.showwarning = _show_warning
            # Typer returns what Ctrl-C ends with.
            status = app(arguments, standalone_mode=False) or 0
    except (KeyboardInterrupt, typer.Abort) as interrupt:
        # Click takes the end of a file for the user's wish to end.
        if isinstance(interrupt.__cause__, EOFError):
            raise interrupt.__cause__ from None
        status = _INTERRUPTED
    except _REPORTED as error:
        if os.environ.get("RECSYS_TRACEBACK"):
            raise
        status = _report(error)
    except ModuleNotFoundError as error:
        if os.environ.get("RECSYS_TRACEBACK"):
            raise
        print("error:", what_to_install(error), file=sys.stderr)
        status = 1
    if status == _INTERRUPTED:
        print("Interrupted.", file=sys.stderr)
    return int(status)


def _line(text: str) -> str:
    """A text in one line, shortened to a few lines of a terminal."""
    return shortened(printable(text), _MOST)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Shows a warning in one line, without the line of code it comes from."""
    print("warning:", _line(str(message)), file=sys.stderr)


def _report(error: Exception) -> int:
    if isinstance(error, OSError) and error.filename:
        text = f"{error.filename}: {error.strerror}"
    elif isinstance(error, MemoryError):
        text = f"expected more memory. Received: {error or 'no more'}"
    else:
        # Click's errors explain themselves elsewhere.
        text = getattr(error, "format_message", error.__str__)()
    print("error:", _line(text), file=sys.stderr)
    of_arguments = (ClickException, ValueError, TypeError)
    wrong = isinstance(error, of_arguments) and not isinstance(error, FileError)
    return 2 if wrong else 1


@app.callback(invoke_without_command=True)
def help_unless_told(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.")
    ] = False,
) -> None:
    """Shows the version, or the help where no command is given."""
    if version:
        from importlib import metadata

        # keras_moe itself would start Keras.
        print("recsys", metadata.version("keras-moe"))
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)


# In the order in which the help lists them.
for function in (
    quickstart,
    prepare,
    describe,
    train,
    baseline,
    info,
    evaluate,
    off_policy,
    explain,
    predict,
    recommend,
    add_items,
    calibrate,
    compress,
    export,
    promote,
    serve,
    compare,
    tune,
    rerun,
    report,
    reproduce,
):
    command = PrepareHelp if function is prepare else SingleOptions
    app.command(cls=command)(function)
