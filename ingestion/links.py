"""What a text links to.

Links are found by patterns that look at each character a bounded number of times, not by full parsers: 10 MB of `[`
cost milliseconds, and nothing nests.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from ingestion.model import Link
from ingestion.text import clean

_MAX_TARGET = 2_000
_CODE_SPAN = re.compile(r"`[^`\n]+`")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_NO_TARGET = ("mailto:", "javascript:", "data:", "tel:", "vbscript:", "about:", "cid:")
_URL = r"https?://[^\s<>\"'`\[\]{}|\\]+"
# All alternatives begin in one set of three characters: then the scan looks at nothing else, and is 14 times faster.
_MARKDOWN_LINK = re.compile(
    r"[\[\]h](?:"
    r"(?<=\[)\[(?P<wiki>[^\]\[\n]*)\]\]"
    r"|(?<=\])\([ \t]*(?:<(?P<angle>[^<>\n]*)>|(?P<inline>[^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*))"
    r"|(?<=\])(?P<colon>:)"
    r"|(?<=h)(?<!\wh)ref=[\"'](?P<href>[^\"'<>\n]+)"
    rf"|(?<=h)(?P<bare>{_URL[1:]})"
    r")"
)
_REFERENCE_LABEL = re.compile(r" {0,3}\[[^\]\[\n]+")
_REFERENCE_TARGET = re.compile(r"[ \t]*<?(?P<target>[^\s<>]+)")
_MAX_LABEL = 1_000
_RST_LINK = re.compile(
    r"<(?P<inline>[^<>`\n]+)>`_"
    r"|^[ \t]*\.\. _[^\n]*?: +(?P<reference>\S+)"
    r"|:doc:`(?:[^`<>\n]*<)?(?P<doc>[^`<>\n]+)"
    rf"|(?P<bare>{_URL})",
    re.MULTILINE,
)


def as_links(targets: Iterable[str], path: str) -> tuple[Link, ...]:
    """Give what the file `path` mentions, each once: paths within the scope, addresses, the rest as written."""
    resolved = (_resolve(target.strip(), posixpath.dirname(path)) for target in dict.fromkeys(targets))
    return tuple(link for link in dict.fromkeys(resolved) if link)


def without_code(prose: str) -> str:
    """Leave out code spans: what stands in one links to nothing."""
    return _CODE_SPAN.sub(" ", prose) if "`" in prose else prose


def markdown_targets(prose: str) -> Iterator[str]:
    """Find the targets of inline, reference, wiki and HTML links and of bare URLs; code is left out by the caller."""
    at = 0
    while (found := _MARKDOWN_LINK.search(prose, at)) is not None:
        at = found.end()
        kind, target = found.lastgroup, found[found.lastgroup or 0]
        if kind == "wiki":
            yield _wiki_target(target)
        elif kind == "bare":
            yield _without_punctuation(found[0])
        elif kind != "colon":
            yield target
        elif _begins_reference(prose, found.start()):
            reference = _REFERENCE_TARGET.match(prose, at)
            if reference is not None:
                at = reference.end()
                yield reference["target"]


def _begins_reference(prose: str, end: int) -> bool:
    """Tell whether what stands before `]: target` is the label of a reference, at the beginning of its line."""
    start = prose.rfind("\n", max(0, end - _MAX_LABEL), end) + 1
    return (start > 0 or end < _MAX_LABEL) and _REFERENCE_LABEL.fullmatch(prose, start, end) is not None


def rst_targets(prose: str) -> Iterator[str]:
    """Find the targets of reStructuredText hyperlinks, of `:doc:` roles and of bare URLs."""
    for found in _RST_LINK.finditer(prose):
        kind, target = found.lastgroup, found[found.lastgroup or 0]
        if kind == "doc":  # Sphinx names pages without their extension
            yield f"{target}.rst"
        elif not target.endswith("_"):  # `<name_>`_ and `.. _a: b_` point at other names
            yield _without_punctuation(target) if kind == "bare" else target


def _without_punctuation(url: str) -> str:
    url = url.rstrip(".,;:!?*_")
    return url if "(" in url else url.rstrip(").,;:!?")


def _wiki_target(written: str) -> str:
    """Give what `[[target#heading|label]]` names: a path, or `wiki:<name>` (which file that is, others know)."""
    target = written.split("|", 1)[0].rstrip("\\").split("#", 1)[0].strip()
    if not target:
        return ""
    if "/" not in target:
        return f"wiki:{target}"
    path = target if posixpath.splitext(target)[1] else f"{target}.md"
    return path if path.startswith(".") else f"/{path.lstrip('/')}"  # a vault's paths begin at its root


def _resolve(target: str, folder: str) -> Link | None:
    if not target or target[0] in "#?" or len(target) > _MAX_TARGET:
        return None
    if _SCHEME.match(target):
        return None if target.lower().startswith(_NO_TARGET) else Link("mentions", target)
    if target.startswith("//"):  # another host
        return Link("mentions", target)
    path = clean(unquote(target.split("#", 1)[0].split("?", 1)[0]))
    # A path from the root begins at the scope, as in a site, a repository or a vault.
    resolved = posixpath.normpath(path.lstrip("/") if path.startswith("/") else posixpath.join(folder, path))
    if resolved == ".":
        return None
    if resolved == ".." or resolved.startswith("../"):
        return Link("mentions", target)
    return Link("mentions", resolved, is_source_id=True)
