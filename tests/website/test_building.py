"""What `make site` makes of links, docstrings and pages."""

from pathlib import Path

import pytest

from website.offline import requests_elsewhere
from website.repository_links import RepositoryLinks
from website.shelf_rows import with_shelf_rows


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name, content in {
        "docs/a.md": "[code](../src/x.py) [b](b.md#part) [`c`](../src)\n"
        "![f](figure.svg) [log](../LOG.md#one) [out](https://example.org/x)\n"
        "```\n[no](link.md)\n```\n[me](#here)\n",
        "docs/b.md": "",
        "docs/figure.svg": "",
        "src/x.py": "",
        "LOG.md": "[a](docs/a.md) [read](README.md)",
        "README.md": "",
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
    return tmp_path


def test_links_of_a_page_lead_to_pages_and_copies(repository: Path) -> None:
    links = RepositoryLinks(repository, ["LOG.md"])
    text = (repository / "docs" / "a.md").read_text(encoding="utf-8")
    assert links.rewritten("a.md", text) == (
        "[code](files/src/x.py) [b](b.md#part) `c` (`src`)\n"
        "![f](figure.svg) [log](LOG.md#one) [out](https://example.org/x)\n"
        "```\n[no](link.md)\n```\n[me](#here)\n"
    )
    assert links.targets() == {"src/x.py"}


def test_links_of_a_page_outside_docs(repository: Path) -> None:
    links = RepositoryLinks(repository, ["LOG.md"])
    text = (repository / "LOG.md").read_text(encoding="utf-8")
    assert links.rewritten("LOG.md", text) == "[a](a.md) [read](index.md)"


@pytest.mark.parametrize(
    "page",
    [
        '<script src="https://cdn.example.org/a.js"></script>',
        "<link href=//fonts.example.org/css rel=stylesheet>",
        '<img alt="" src="http://example.org/a.png">',
        "<style>a { background: url(https://example.org/a.png) }</style>",
    ],
)
def test_a_request_to_another_host_is_found(page: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(page, encoding="utf-8")
    (line,) = requests_elsewhere(tmp_path)
    assert line.startswith("index.html: ")
    assert "example.org" in line


def test_links_and_own_files_are_not_requests(tmp_path: Path) -> None:
    page = (
        '<a href="https://example.org">x</a><img src="a.png">'
        '<link rel="canonical" href="https://example.org/">'
        '<link href="a.css" rel="stylesheet">'
    )
    (tmp_path / "index.html").write_text(page, encoding="utf-8")
    (tmp_path / "a.css").write_text("a { background: url(a.png) }")
    assert requests_elsewhere(tmp_path) == []
    (tmp_path / "a.css").write_text("@import 'https://example.org/a.css';")
    assert len(requests_elsewhere(tmp_path)) == 1


def test_the_home_page_has_the_rows_of_the_readme(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    table = "| public benchmark | here |\n|---|---|\n| one | 0.3 |\n"
    readme.write_text(f"Words\n\n{table}\nMore\n", encoding="utf-8")
    page = with_shelf_rows("a\n\n<!-- shelf -->\nb\n", readme)
    assert page == f"a\n\n{table}\nb\n"
    with pytest.raises(ValueError, match="expected a line '<!-- shelf -->"):
        with_shelf_rows("a\n", readme)
    readme.write_text("Words\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"table .* in README\.md"):
        with_shelf_rows("<!-- shelf -->\n", readme)


def test_docstrings_are_read_as_those_of_keras() -> None:
    docstrings = pytest.importorskip("website.docstrings")
    text = (
        "Adds.\n\nCall arguments:\n    inputs: Tensor\n        of rows.\n"
        "    mask: Tensor.\n\nExample:\n\n>>> 1 + 1\n2"
    )
    assert docstrings.rewritten(text) == (
        "Adds.\n\nCall arguments:\n    - **`inputs`**: Tensor\n"
        "        of rows.\n    - **`mask`**: Tensor.\n\nExamples:\n\n"
        ">>> 1 + 1\n2"
    )
