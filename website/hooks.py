"""Hooks of MkDocs: generated pages, files beside `docs/`, and their links."""

import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from website.api_pages import api_pages  # noqa: E402
from website.api_pages import api_sections  # noqa: E402
from website.api_pages import names_without_page  # noqa: E402
from website.cli_page import cli_page  # noqa: E402
from website.demo.files import demo_files  # noqa: E402
from website.offline import requests_elsewhere  # noqa: E402
from website.repository_links import RepositoryLinks  # noqa: E402
from website.shelf_rows import with_shelf_rows  # noqa: E402

# Pages of the site that are not in `docs/`.
PAGES = (
    *("CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md"),
    *("ROADMAP.md", "SECURITY.md", "benchmarks/README.md"),
    *("notebooks/gates.ipynb", "notebooks/local_search.ipynb"),
    "notebooks/quick_start.ipynb",
)
LINKS = RepositoryLinks(ROOT, PAGES)


@event_priority(100)
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Lists the pages of the API in the navigation."""
    for section in config.nav:
        for title, entries in section.items():
            if title == "Reference":
                entries[0] = {"API": ["api/index.md", *api_sections()]}
    return config


# Before mkdocs-jupyter, which turns notebooks into pages.
@event_priority(100)
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds what is generated, what stands elsewhere, and what it links to."""
    style = (ROOT / "website" / "site.css").read_text(encoding="utf-8")
    generated = {**api_pages(), "cli.md": cli_page(), "site.css": style}
    for name, content in generated.items():
        files.append(File.generated(config, name, content=content))
    for name in PAGES:
        files.append(File(name, str(ROOT), config.site_dir, True))
    for name in sorted(LINKS.targets()):
        file = File.generated(
            config, f"files/{name}", abs_src_path=str(ROOT / name)
        )
        files.append(file)
    try:
        demonstration = demo_files(ROOT)
    except FileNotFoundError as error:
        raise PluginError(str(error)) from error
    for name, path in demonstration.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(
    markdown: str, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Puts links of the repository right for the site."""
    name = page.file.src_uri
    if name == "index.md":
        markdown = with_shelf_rows(markdown, ROOT / "README.md")
    if name == "demo.md":
        markdown += '\n<script type="module" src="demo.js"></script>\n'
    if name.startswith("api/") or name == "cli.md":
        return markdown
    return LINKS.rewritten(name, markdown)


def on_post_build(config: MkDocsConfig, **_: Any) -> None:
    """Refuses requests to other hosts, and public names without a page.

    Raises:
        SystemExit: There are such.
    """
    site = Path(config.site_dir)
    found = [
        *(
            f"request to another host: {line}"
            for line in requests_elsewhere(site)
        ),
        *(f"no page of {name}" for name in names_without_page(site)),
    ]
    if found:
        raise SystemExit("\n".join(found))
