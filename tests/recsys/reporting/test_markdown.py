import pytest
from matplotlib.figure import Figure

from recsys.reporting.markdown import markdown_table
from recsys.reporting.markdown import markdown_text
from recsys.reporting.pages import Pages
from recsys.reporting.section import Picture
from recsys.reporting.section import Section
from recsys.reporting.section import Table

NASTY = "<script>x</script>\n# a|b *c* [d](e) `f` \x1b[31m &lt; _g_ val_loss"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("COMET+ (ours), 0.5 & more", "COMET+ (ours), 0.5 & more"),
        ("val_loss _x_", r"val_loss \_x\_"),
        ("a\n\n# b", "a # b"),
        ("<b>&amp;", "&lt;b&gt;&amp;amp;"),
        ("[a](b)|`c`", r"\[a\](b)\|\`c\`"),
        ("\x1b[31m", r"\\x1b\[31m"),
        ("\\*", r"\\\*"),
    ],
)
def test_text_is_shown_as_it_is(text: str, expected: str) -> None:
    assert markdown_text(text) == expected


def test_row_of_a_table_stays_a_row() -> None:
    lines = markdown_table([NASTY], [[NASTY], ["b"]]).split("\n")
    assert len(lines) == 4
    assert lines[0] == lines[2] == f"| {markdown_text(NASTY)} |"


def test_names_in_a_report_are_text() -> None:
    table = Table(NASTY, ["model"], [[NASTY]])
    picture = Picture("figure", NASTY, Figure())
    section = Section(NASTY, NASTY, [table], [picture], [NASTY, NASTY])
    text = Pages(NASTY, NASTY, [section]).markdown()
    assert "<" not in text
    assert "\x1b" not in text
    blocks = text.removesuffix("\n").split("\n\n")
    shown = markdown_text(NASTY)
    assert blocks == [
        f"# {shown}",
        shown,
        f"## {shown}",
        f"- {shown}\n- {shown}",
        shown,
        f"![{shown}](figures/figure.png)",
        f"**{shown}**",
        f"| model |\n|---|\n| {shown} |",
    ]
