"""What users may rely on does not change unnoticed, and suffices for recsys."""

import ast
import json
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

import pytest

from tests.keras_moe.public_api import LISTING
from tests.keras_moe.public_api import MODULES
from tests.keras_moe.public_api import exports
from tests.keras_moe.public_api import listing

ROOT = Path(__file__).parents[2]
# A script that fits the constants of a module has to get at them.
FITTED = {"benchmarks/break_even.py: keras_moe.layers.break_even"}
# What layers of one's own are written with, as those of the package.
WRITTEN_WITH = ("keras_moe.checks.check_", "keras_moe.types.")
PUBLIC = {"keras_moe", "keras_moe.__version__"}
for module in MODULES:
    PUBLIC.add(module.__name__)
    PUBLIC |= {f"{module.__name__}.{name}" for name in exports(module)}


def sources() -> Iterator[tuple[Path, str]]:
    """The code of those who use keras_moe as its users do."""
    for folder in ("recsys", "studies", "benchmarks", "docs"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield file, file.read_text(encoding="utf-8")
    for file in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        for cell in cells:
            if cell["cell_type"] == "code":
                yield file, "".join(cell["source"])


def used_names(code: str) -> Iterator[str]:
    """The names of keras_moe that are imported, or read of what is."""
    tree = ast.parse(code)
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                # `import a.b` makes a name of `a` alone.
                package = alias.name.partition(".")[0]
                bound = alias.name if alias.asname else package
                imported[alias.asname or package] = bound
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                path = f"{node.module}.{alias.name}"
                imported[alias.asname or alias.name] = path
                yield path
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            path = ast.unparse(node)
            first, _, rest = path.partition(".")
            path = f"{imported.get(first, first)}.{rest}"
            if path.rpartition(".")[0] in {m.__name__ for m in MODULES}:
                yield path


def private_names(code: str) -> list[str]:
    return [
        name
        for name in used_names(code)
        if name.partition(".")[0] == "keras_moe"
        and name not in PUBLIC
        and not name.startswith(WRITTEN_WITH)
    ]


def test_public_names_and_signatures_are_those_of_the_listing() -> None:
    expected = LISTING.read_text(encoding="utf-8")
    difference = "\n".join(
        unified_diff(expected.splitlines(), listing().splitlines(), lineterm="")
    )
    assert not difference, (
        "The public interface has changed. If it is meant to: "
        f"python -m tests.keras_moe.public_api\n{difference}"
    )


@pytest.mark.once("torch")
def test_nothing_but_public_names_is_used_outside() -> None:
    used = {
        f"{file.relative_to(ROOT)}: {name}"
        for file, code in sources()
        for name in private_names(code)
    }
    assert used == FITTED


@pytest.mark.parametrize(
    "code",
    [
        "from keras_moe.layers.execution import Execution",
        "from keras_moe.ops import _rows",
        "import keras_moe.layers.mmoe",
        "from keras_moe import layers\nlayers.execution",
        "import keras_moe\nkeras_moe.ops._rows.gather",
        "from keras_moe import ops as moe_ops\nmoe_ops.example_mean(x)",
        "from keras_moe.checks import _as_float",
    ],
)
def test_every_use_of_a_private_name_is_found(code: str) -> None:
    assert private_names(code)


@pytest.mark.parametrize(
    "code",
    [
        "from keras_moe.layers import MMoE",
        "import keras_moe.layers",
        "from keras_moe import layers\nlayers.MMoE.call",
        "import keras_moe\nkeras_moe.ops.smooth_step(x)",
        "layers.execution",
    ],
)
def test_public_names_are_no_fault(code: str) -> None:
    assert not private_names(code)
