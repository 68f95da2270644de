"""Texts and files drawn by a grammar, each with what should become of it.

Other cases know what a valid file is and that a broken one is one clear error.
These know what each value has to become, so that they find what is taken for
something else, too.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.fuzz.grammars.declarations import check_declaration
from tests.fuzz.grammars.formulas import check_formula
from tests.fuzz.grammars.parts import check_parts
from tests.fuzz.grammars.requests import check_request

# Each draws a case, runs it in a folder, and returns what it was and what is
# wrong, if anything is.
GRAMMARS: dict[str, Callable[[Random, Path], tuple[str, str | None]]] = {
    "declaration": check_declaration,
    "formula": check_formula,
    "parts": check_parts,
    "request": check_request,
}

# Draws of a case: each takes far less time than a command.
DRAWS = 20


def run_grammar(
    name: str, seed: str, folder: Path, draws: int = DRAWS
) -> tuple[str, str | None]:
    """Runs draws of a grammar up to the first one that goes wrong.

    Args:
        name: One of `GRAMMARS`.
        seed: What every choice depends on.
        folder: Folder to work in.
        draws: How many there are at most.

    Returns:
        The last draw, and what is wrong, if anything is.
    """
    random, drawn, problem = Random(f"{name}:{seed}"), "", None
    for _ in range(draws):
        drawn, problem = GRAMMARS[name](random, folder)
        if problem:
            break
    return drawn, problem
