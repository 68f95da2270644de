"""A report as files: an HTML page, the same as Markdown, and the figures."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from jinja2 import Environment
from jinja2 import PackageLoader
from jinja2 import StrictUndefined
from matplotlib.figure import Figure

from recsys import plots
from recsys.files.json_files import write_json
from recsys.reporting.markdown import markdown_table
from recsys.reporting.markdown import markdown_text
from recsys.reporting.section import Section
from recsys.reporting.tooltips import add_tooltips
from recsys.reporting.tooltips import titled

PAGE = "index.html"
# What Matplotlib writes before and in a file, and names that a page with
# several figures would have twice and nothing refers to.
_PROLOGUE = re.compile(r"\A.*?(?=<svg)", re.DOTALL)
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_GROUP = re.compile(r'<g id="[^"]*"')
_BLACK = re.compile(r"(fill|stroke): ?#000000")
_SIZE = re.compile(r'(<svg[^>]*?) width="([\d.]+)pt" height="[\d.]+pt"')


@dataclass(frozen=True)
class Pages:
    """The contents of a report.

    Args:
        title: The heading of all.
        summary: What the report is made of.
        sections: Its parts.
    """

    title: str
    summary: str
    sections: Sequence[Section]

    def write(
        self, folder: Path, page: str = PAGE, text: str = "report.md"
    ) -> None:
        """Writes the page, the same as Markdown, `figures/` and values as JSON.

        Args:
            folder: An existing folder. The page holds its figures itself.
            page: Name of the page, `index.html` unless given.
            text: Name of the Markdown file, `report.md` unless given.
        """
        images = {}
        for section in self.sections:
            if section.values:
                file = folder / f"{section.title.lower()}.json"
                write_json(file, section.values)
            for picture in section.pictures:
                file = folder / "figures" / f"{picture.name}.png"
                add_tooltips(picture.figure)
                images[picture.name] = themed_svg(picture.figure, picture.name)
                # The layout is found already, which takes most of the time.
                picture.figure.set_layout_engine("none")
                plots.save(picture.figure, file)
        html = _TEMPLATES.get_template("page.html").render(
            title=self.title,
            summary=self.summary,
            sections=self.sections,
            images=images,
        )
        (folder / page).write_text(html, encoding="utf-8")
        (folder / text).write_text(self.markdown(), encoding="utf-8")

    def markdown(self) -> str:
        """Returns the report as Markdown."""
        text = markdown_text
        parts = [f"# {text(self.title)}", text(self.summary)]
        for section in self.sections:
            parts.append(f"## {text(section.title)}")
            if section.findings:
                parts.append(
                    "\n".join(f"- {text(line)}" for line in section.findings)
                )
            parts.append(text(section.text))
            parts += [
                f"![{text(picture.caption)}](figures/{picture.name}.png)"
                for picture in section.pictures
            ]
            for table in section.tables:
                parts += [
                    f"**{text(table.caption)}**",
                    markdown_table(table.header, table.rows),
                ]
        return "\n\n".join(parts) + "\n"


_TEMPLATES = Environment(
    loader=PackageLoader("recsys.reporting", "."),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
)


def themed_svg(figure: Figure, name: str) -> str:
    """Returns a figure as SVG for a light and a dark page.

    Its ground is transparent, black becomes the colour of the text around it,
    texts are texts, its width is what the page has room for, and marks with a
    title show it as a tooltip.

    Args:
        figure: The figure.
        name: What makes names in it differ from those of other figures.
    """
    file = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(
            file, format="svg", transparent=True, metadata={"Date": None}
        )
    text = titled(_METADATA.sub("", _PROLOGUE.sub("", file.getvalue())))
    text = _BLACK.sub(r"\1: currentColor", _GROUP.sub("<g", text))
    return _SIZE.sub(r'\1 style="width: \2pt"', text, count=1)
