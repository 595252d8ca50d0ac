"""HTML to readable text, by lxml's event parser: nothing recurses, so that no depth of nesting can hurt."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types

from ingestion.text import clean

_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_SKIPPED = frozenset(("script", "style", "noscript", "template"))
_PARAGRAPHS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "center", "dd", "details", "dl", "dt", "fieldset", "figcaption"),
        *("figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "main", "nav", "ol", "p"),
        *("pre", "section", "summary", "table", "textarea", "ul"),
    )
)
_LINES = frozenset(("br", "caption", "div", "li", "option", "tr", "body", "html", "head", "title"))
_CELLS = frozenset(("td", "th"))
_LISTS = frozenset(("ul", "ol", "menu", "dir"))
_MAX_INDENT = 8


@dataclass(frozen=True, slots=True)
class HtmlText:
    """What a reader sees of an HTML page."""

    title: str
    """The `<title>`, else the first heading of the first level, else empty."""
    text: str
    """The text, one block a line or paragraph."""
    links: tuple[str, ...]
    """The targets of its links, as written, in order, each once."""


def html_charset(payload: bytes) -> str | None:
    """Give the charset that an HTML page declares in a `<meta>`, if it does."""
    found = _META_CHARSET.search(payload, 0, 4096)
    return found[1].decode("ascii", "replace") if found else None


def html_to_text(html: str) -> HtmlText:
    """Read a page as text: blocks become lines, list entries get bullets, cells are separated, `<pre>` is kept."""
    reader = _Reader()
    parser = etree.HTMLParser(target=reader, encoding="utf-8", huge_tree=True, remove_comments=True)
    try:
        etree.fromstring(clean(html).encode(), parser)
    except etree.LxmlError:  # junk beyond recovery (an empty page, say): what was read so far is the text
        reader.close()
    return HtmlText(reader.title or reader.heading, clean("\n".join(reader.lines)), tuple(reader.links))


class _Reader:
    """Receives the parser's events; keeps one open line and flushes it at each border of a block."""

    def __init__(self) -> None:
        self.title = ""
        self.heading = ""
        self.lines: list[str] = []
        self.links: dict[str, None] = {}
        self._line: list[str] = []
        self._bullet = ""
        self._skipped = self._pre = self._lists = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Open an element."""
        if tag in _SKIPPED:
            self._skipped += 1
        elif tag in _CELLS and self._line:
            self._line.append(" | ")
        elif tag in ("a", "area") and attributes.get("href"):
            self.links[attributes["href"].strip()] = None
        elif tag == "img":
            self._line.append(attributes.get("alt", ""))
        else:
            self._border(tag)
        if tag in _LISTS:
            self._lists += 1
        elif tag == "li":
            self._bullet = "  " * min(self._lists - 1, _MAX_INDENT) + "- "
        elif tag == "pre":
            self._pre += 1

    def end(self, tag: str) -> None:
        """Close an element; the parser closes whatever the page left open."""
        if tag in _SKIPPED:
            self._skipped -= 1
        elif tag == "title":
            self._take_title()
        elif tag == "h1" and not self.heading:
            self.heading = " ".join("".join(self._line).split())
        self._border(tag)
        if tag == "pre":
            self._pre -= 1
        elif tag in _LISTS:
            self._lists -= 1

    def data(self, text: str) -> None:
        """Receive text."""
        if not self._skipped:
            self._line.append(text)

    def close(self) -> None:
        """End the page."""
        self._flush()

    def _border(self, tag: str) -> None:
        if tag in _PARAGRAPHS:
            self._flush()
            if self.lines and self.lines[-1]:
                self.lines.append("")
        elif tag in _LINES:
            self._flush()

    def _flush(self) -> None:
        if self._line:
            text = "".join(self._line)
            self._line.clear()
            text = text.strip("\n") if self._pre else " ".join(text.split())
            if text:
                self.lines.append(self._bullet + text)
                self._bullet = ""

    def _take_title(self) -> None:
        """Take the page's title out of the text; later ones are those of drawings."""
        self.title = self.title or " ".join("".join(self._line).split())
        self._line.clear()
