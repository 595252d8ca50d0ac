"""Markdown, reStructuredText, HTML and text files: their title, their text and what they link to."""

import re
from typing import NamedTuple

from ingestion.frontmatter import FrontMatter, front_matter
from ingestion.htmltext import html_charset, html_to_text
from ingestion.links import as_links, markdown_targets, rst_targets, without_code
from ingestion.model import Link
from ingestion.text import clean, decode

MARKDOWN, HTML, RST, TEXT = "text/markdown", "text/html", "text/x-rst", "text/plain"

_HEAD = 65_536  # a title further down is no title
_MAX_TITLE = 300
_FENCE_SIGNS = ("```", "~~~")
_FENCE = re.compile(r"[ \t>]*(?:[-*+] +)?(`{3,}|~{3,})(.*)")
_ATX = re.compile(r" {0,3}#{1,6}[ \t]+(\S.*)")
_SETEXT = re.compile(r" {0,3}(?:={2,}|-{3,})")
_NO_PARAGRAPH = re.compile(r"[ \t]*(?:[>|<#]|[-*+][ \t]|[-=*_]{3,}$)")
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1+")
_LABEL = re.compile(r"!?\[([^\][\n]*)\]\([^()\n]*\)")


class Markup(NamedTuple):
    """What a file says, whatever it is written in."""

    title: str | None
    """Its first heading (or HTML title), None where it has none."""
    text: str
    """Its text: Markdown and reStructuredText as written, HTML as read."""
    links: tuple[Link, ...]
    """What it mentions: paths within the scope, `wiki:<name>`, or addresses, each once, in order."""
    front: FrontMatter = FrontMatter({}, "")
    """Its front matter; Markdown alone has one (in YAML files of several documents the first would be lost)."""


def read_markup(payload: bytes, media_type: str, path: str) -> Markup:
    """Read a file's bytes. `path` is its place within the scope, against which relative links are resolved."""
    if media_type == HTML:
        page = html_to_text(decode(payload, html_charset(payload)))
        return Markup(page.title or None, page.text, as_links(page.links, path))
    text = decode(payload)
    if media_type == MARKDOWN:
        front = front_matter(clean(text)) if text.startswith("---") else FrontMatter({}, clean(text))
        body = front.body.strip()
        prose = markdown_prose(body)
        return Markup(
            _markdown_title(prose[:_HEAD]), body, as_links(markdown_targets(without_code(prose)), path), front
        )
    body = clean(text)
    if media_type == RST:
        return Markup(_rst_title(body[:_HEAD]), body, as_links(rst_targets(_outside_literals(body)), path))
    return Markup(None, body, ())


def markdown_prose(text: str) -> str:
    """Leave out fenced code blocks."""
    # The next of each kind: no text is searched twice, and where there is none, one character is looked for.
    marks = [text.find(sign) if sign[0] in text else -1 for sign in _FENCE_SIGNS]
    kept: list[str] = []
    fence = ""
    at = looked = 0  # what is not yet kept begins there; the lines before that were looked at
    while max(marks) >= 0:
        mark = min(place for place in marks if place >= 0)
        start = text.rfind("\n", looked, mark) + 1 or looked
        looked = text.find("\n", mark) + 1 or len(text)
        found = _FENCE.match(text, start, looked)
        if fence:
            if found and found[1].startswith(fence) and not found[2].strip():
                fence, at = "", looked
        elif found and not (found[1][0] == "`" and "`" in found[2]):  # "```x```" is a code span
            kept.append(text[at:start])
            fence = found[1]
        marks = [
            text.find(sign, looked) if 0 <= place < looked else place
            for sign, place in zip(_FENCE_SIGNS, marks, strict=True)
        ]
    return "".join(kept) if fence else "".join((*kept, text[at:]))


def _outside_literals(text: str) -> str:
    """Leave out reStructuredText's literal blocks: what is indented deeper than a line that ends with `::`."""
    kept: list[str] = []
    limit: int | None = None
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip())
        if limit is not None and line and indent <= limit:
            limit = None
        if limit is None:
            kept.append(line)
            directive = line.lstrip()
            if directive.startswith((".. code", ".. sourcecode")) or (line.endswith("::") and directive[:2] != ".."):
                limit = indent
    return "\n".join(kept)


def _markdown_title(prose: str) -> str | None:
    before = ""
    for line in prose.split("\n"):
        atx = _ATX.match(line)
        if atx:
            without_end = atx[1].rstrip("#")  # `## Title ##`, but not `# C#`
            return _as_title(without_end if without_end.endswith((" ", "\t")) else atx[1])
        if before and _SETEXT.fullmatch(line) and not _NO_PARAGRAPH.match(before):
            return _as_title(before)
        before = line.rstrip()
    return None


def _rst_title(body: str) -> str | None:
    before = ""
    for line in body.split("\n"):
        if before and _ADORNMENT.fullmatch(line) and len(line) >= len(before) and not _ADORNMENT.fullmatch(before):
            return _as_title(before)
        before = line.strip()
    return None


def _as_title(heading: str) -> str | None:
    """Take the marks of links, emphasis and code out of a heading."""
    return _LABEL.sub(r"\1", heading).replace("**", "").replace("`", "").strip("*_ \t")[:_MAX_TITLE] or None
