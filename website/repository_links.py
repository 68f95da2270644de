"""Links between files of the repository, as links between pages of the site."""

import posixpath
import re
from collections.abc import Iterable
from collections.abc import Iterator
from pathlib import Path

_LINK = re.compile(r"(!?\[(?:[^\]\[]|\[[^\]]*\])*\])\(([^)\s#]*)(#[^)\s]*)?\)")
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


class RepositoryLinks:
    """Where a link of a page of the repository leads on the site.

    On the site, `docs/` is the root, the other pages keep their paths, and all
    other files that a page links to are copies in `files/`. A folder is named,
    not linked.

    Args:
        root: Folder of the repository.
        pages: Paths of the pages that are not in `docs/`.
    """

    def __init__(self, root: Path, pages: Iterable[str]) -> None:
        self._root = root
        self._pages = frozenset(pages)

    def targets(self) -> set[str]:
        """Returns the paths of the files that pages link to, for copies."""
        docs = {
            f"docs/{file.relative_to(self._root / 'docs').as_posix()}"
            for file in (self._root / "docs").rglob("*.md")
        }
        return {
            path
            for page in docs | {p for p in self._pages if p.endswith(".md")}
            for path in self._linked(page)
            if self._place(path) == f"files/{path}"
            and (self._root / path).is_file()
        }

    def rewritten(self, page: str, text: str) -> str:
        """Returns the text of a page of the site, with links that work there.

        Args:
            page: Path of the page on the site.
            text: Its Markdown.
        """
        source = page if page in self._pages else f"docs/{page}"

        def replace(match: re.Match[str]) -> str:
            label, link, anchor = match[1], match[2], match[3] or ""
            path = _resolved(source, link)
            if path is None:
                return match[0]
            if (self._root / path).is_dir():
                return f"{label[1:-1]} (`{path}`)"
            place = posixpath.relpath(
                self._place(path), posixpath.dirname(page) or "."
            )
            return f"{label}({place}{anchor})"

        parts = _CODE.split(text)
        # A link may have code as its text: single marks belong to the text.
        joined, out = "", []
        for number, part in enumerate(parts):
            if number % 2 and part.startswith("```"):
                out += [_LINK.sub(replace, joined), part]
                joined = ""
            else:
                joined += part
        return "".join([*out, _LINK.sub(replace, joined)])

    def _linked(self, page: str) -> Iterator[str]:
        text = (self._root / page).read_text(encoding="utf-8")
        for match in _LINK.finditer(text):
            path = _resolved(page, match[2])
            if path is not None:
                yield path

    def _place(self, path: str) -> str:
        """The path on the site of a file of the repository."""
        if path in self._pages:
            return path
        if path == "README.md":
            return "index.md"
        if path.startswith("docs/") and not path.endswith(".py"):
            return path.removeprefix("docs/")
        return f"files/{path}"


def _resolved(page: str, link: str) -> str | None:
    """The path in the repository; `None` for a link to elsewhere."""
    if not link or re.match(r"[a-z]+:", link):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
