import traceback
from collections.abc import Callable
from typing import Any

from tests.fuzz.cases import LONGEST


def outcome(
    run: Callable[[], Any], expected: type[Exception]
) -> tuple[Any, Exception | None, str | None]:
    """Runs what may refuse its input.

    Args:
        run: What is tried.
        expected: The error that it may raise.

    Returns:
        What was returned, the error, and what is wrong with it: a traceback
        where it is another one.
    """
    try:
        return run(), None, None
    except expected as error:
        text = str(error)
        problem = None
        if len(text) > LONGEST:
            problem = f"an error of {len(text):,} letters"
        elif "Received" not in text:
            problem = f"an error without what was received: {text}"
        return None, error, problem
    except Exception as error:
        return None, error, "".join(traceback.format_exception(error))
