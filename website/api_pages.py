"""Pages of the public names: one for each, and one for each package.

Names come from the syntax of `__init__.py`, so that nothing is imported.
"""

import ast
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# Packages whose exports are public, in the order of the navigation.
PACKAGES = (
    *("keras_moe.layers", "keras_moe.callbacks", "keras_moe.compress"),
    *("keras_moe.distribution", "keras_moe.metrics", "keras_moe.ops"),
    *("keras_moe.optimizers", "keras_moe.regularizers"),
    *("recsys", "recsys.metrics"),
)


def exports(package: str) -> dict[str, str]:
    """Returns the module that each exported name of a package is from.

    Exported is what `__init__.py` imports as itself: `from a.b import C as C`.
    Constants are left out.

    Args:
        package: Name, such as `"keras_moe.layers"`.
    """
    return {
        name: module
        for name, module in _imported(package).items()
        if _definition(module, name) is not None
    }


def summary(package: str, name: str | None = None) -> str:
    """Returns the first sentence of the docstring of a package or name.

    Args:
        package: Name of the package.
        name: One of its exports.

    Raises:
        ValueError: There is no docstring.
    """
    if name is None:
        node: Any = _tree(package)
    else:
        node = _definition(_imported(package)[name], name)
    text = ast.get_docstring(node)
    if not text:
        raise ValueError(f"no docstring. Received: {package}, {name}")
    return " ".join(text.split("\n\n")[0].split())


def api_pages() -> dict[str, str]:
    """Returns the Markdown of each page by its path on the site."""
    overview = ["# API", "", "| package | contents |", "|---|---|"]
    pages = {}
    for package in PACKAGES:
        about, names = summary(package), sorted(exports(package))
        overview.append(f"| [`{package}`]({package}/index.md) | {about} |")
        lines = [f"# `{package}`", "", about, "", "| name | |", "|---|---|"]
        for name in names:
            cell = summary(package, name).replace("|", "\\|")
            lines.append(f"| [`{name}`]({name}.md) | {cell} |")
            pages[f"api/{package}/{name}.md"] = (
                f"---\ntitle: {name}\n---\n\n::: {package}.{name}\n"
            )
        pages[f"api/{package}/index.md"] = "\n".join(lines) + "\n"
    pages["api/index.md"] = "\n".join(overview) + "\n"
    return pages


def api_sections() -> list[dict[str, list[str]]]:
    """Returns the part of the navigation below "API"."""
    return [
        {
            package: [
                f"api/{package}/{name}.md"
                for name in ("index", *sorted(exports(package)))
            ]
        }
        for package in PACKAGES
    ]


def names_without_page(site: Path) -> list[str]:
    """Returns the public names that the built pages do not document.

    Args:
        site: Folder of the built pages.
    """
    return [
        f"{package}.{name}"
        for package in PACKAGES
        for name in exports(package)
        if f'id="{package}.{name}"'
        not in (site / "api" / package / name / "index.html").read_text("utf-8")
    ]


def _imported(package: str) -> dict[str, str]:
    return {
        name.name: str(node.module)
        for node in ast.walk(_tree(package))
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.asname == name.name
    }


def _definition(module: str, name: str) -> Any:
    """The class or function; `None` for a constant."""
    for node in _tree(module).body:
        if getattr(node, "name", "") == name:
            return node
    origin = _imported(module).get(name)
    return _definition(origin, name) if origin else None


@cache
def _tree(module: str) -> ast.Module:
    path = ROOT / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))
