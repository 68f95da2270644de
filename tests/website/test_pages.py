"""What must have a page has one, and links between pages lead somewhere."""

import re
import runpy
from functools import cache
from pathlib import Path

import pytest
import yaml

import recsys
from recsys.config.gate_names import GATES
from recsys.features import FEATURES
from recsys.tasks import TASKS
from website.api_pages import api_pages
from website.api_pages import api_sections
from website.api_pages import exports
from website.cli_page import cli_page
from website.cli_page import commands

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    file.relative_to(ROOT).as_posix()
    for file in sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
]
PAGES.append("benchmarks/README.md")


@cache
def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("command", commands())
def test_a_command_is_in_a_page_and_in_that_of_the_command_line(
    command: str,
) -> None:
    by_hand = "".join(text(page) for page in PAGES if page.startswith("docs/"))
    assert re.search(rf"recsys {command}\b", by_hand)
    page = cli_page()
    assert f"\n## `recsys {command}`\n" in page
    for parameter in commands()[command].params:
        for flag in getattr(parameter, "opts", ()):
            assert f"| `{flag}" in page


@pytest.mark.parametrize("gate", GATES)
def test_a_gate_has_a_section_a_row_and_a_figure(gate: str) -> None:
    page = text("docs/gates.md")
    assert f"\n## `{gate}`\n\n![{gate}](gates/{gate}.svg)\n" in page
    assert f"\n| `{GATES[gate].layer}` |" in page
    assert f"(gates/{gate}.svg)](gates.md#{gate})" in text("docs/gallery.md")
    assert (DOCS / "gates" / f"{gate}.svg").is_file()


@pytest.mark.parametrize("kind", [*FEATURES, *TASKS])
def test_a_kind_is_explained(kind: str) -> None:
    assert f"`{kind}`" in text("docs/concepts.md")
    assert re.search(rf"`{kind}`|\*\*{kind}\*\*", text("docs/own_data.md"))


def test_each_public_name_has_a_page() -> None:
    listing = text("tests/keras_moe/public_api.txt")
    public = {
        tuple(name.rsplit(".", 1))
        for name in re.findall(r"^(keras_moe\.\w+\.\w+)(?:\(|$)", listing, re.M)
    }
    public |= {("recsys", name) for name in dir(recsys)}
    pages = api_pages()
    assert {
        f"api/{package}/{name}.md" for package, name in public
    } - pages.keys() == set()
    listed = [page for s in api_sections() for p in s.values() for page in p]
    assert {*listed, "api/index.md"} == {*pages}


def test_constants_have_no_page_of_their_own() -> None:
    assert exports("recsys")["train"] == "recsys.api.train"
    assert "TASK_METRICS" not in exports("recsys.metrics")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    body = re.sub(r"^```.*?^```", "", text(page), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", body):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = ((ROOT / page).parent / file).resolve()
        target = target if file else ROOT / page
        assert target.is_relative_to(ROOT), link
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def anchors(file: Path) -> set[str]:
    body = file.read_text(encoding="utf-8")
    body = re.sub(r"^```.*?^```", "", body, flags=re.M | re.S)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", body, re.M)
    }


def test_each_page_is_in_the_navigation_and_on_the_home_page() -> None:
    configuration = text("mkdocs.yml")
    listed = {*re.findall(r"^ +- .*?([\w/]+\.md)$", configuration, re.M)}
    pages = {file.relative_to(DOCS).as_posix() for file in DOCS.rglob("*.md")}
    assert pages - listed == set()
    home = set(re.findall(r"\]\(([\w/]+\.md)", text("docs/index.md")))
    assert {page for page in pages if "/" not in page} - home == {"index.md"}


def test_the_readme_is_short_and_has_the_first_rows_of_the_shelf() -> None:
    readme = text("README.md")
    assert len(readme.encode()) <= 6144
    assert "`make train`" in readme
    assert "`make test`" in readme
    assert readme.index("| public benchmark") < readme.index("## ")


def test_the_figures_of_the_concepts_are_drawn_by_their_script() -> None:
    script = runpy.run_path(str(DOCS / "concepts_figures.py"))
    files = {file.stem: file for file in (DOCS / "concepts").glob("*.svg")}
    assert files.keys() == script["FIGURES"].keys()
    for name, draw in script["FIGURES"].items():
        assert files[name].read_text(encoding="utf-8") == draw()
        assert f"(concepts/{name}.svg)" in text("docs/concepts.md")


def test_forms_of_issues_are_valid() -> None:
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert len(forms) == 3
    for form in forms:
        content = yaml.safe_load(form.read_text(encoding="utf-8"))
        if form.stem != "config":
            assert content["name"]
            assert content["description"]
            for part in content["body"]:
                assert part["type"] in ("checkboxes", "textarea")
                assert part["attributes"]["label"]


def test_what_pages_say_of_make_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.M))
    said = {
        target
        for page in PAGES
        for target in re.findall(r"(?:^|`)make ([a-z-]+)", text(page), re.M)
    }
    assert {"train", "test", "site"} <= said
    assert said - targets == set()
    (listed,) = re.findall(r"^\.PHONY: (.*)$", text("Makefile"), re.M)
    assert targets == set(listed.split())
