"""What the Markdown of a code host refers to: `#12`, `owner/name#12`, `GH-12`, and addresses of the host itself."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from ingestion.links import markdown_targets, without_code
from ingestion.markup import markdown_prose
from ingestion.model import Link

# Each pattern begins with one literal, and what stands before it is looked at afterwards: a pattern that tried an
# optional owner/name at every character took longer than all the rest of a document's way.
_NUMBER = re.compile(r"#([1-9]\d{0,8})(?![\w-])")
_GH_NUMBER = re.compile(r"GH-([1-9]\d{0,8})\b")
_REPOSITORY_BEFORE = re.compile(r"(?<![\w./-])([\w-]{1,64}/[\w.-]{1,100})\Z")
_KEYWORD_BEFORE = re.compile(
    r"\b(?:(?P<closes>close[sd]?|fix(?:e[sd])?|resolve[sd]?)|(?P<duplicates>duplicate of)):?[ \t]+\Z", re.IGNORECASE
)
_LONGEST_NAME, _LONGEST_KEYWORD = 170, 30
_PLACE = re.compile(
    r"^(?P<host>https?://[^/]+)/(?P<repository>[\w.-]+/[\w.-]+)/(?:issues|pull)/(?P<number>\d{1,9})"
    r"(?:/files)?/?(?:\#(?:issuecomment-(?P<comment>\d+)|discussion_r(?P<review>\d+))?)?$"
)


class Repository(NamedTuple):
    """Where a text stands."""

    web: str
    """Scheme and host of the pages for people: `https://github.com`."""
    names: frozenset[str]
    """`owner/name`, in lower case: those that it has now and had."""


def references(text: str, repository: Repository) -> tuple[Link, ...]:
    """Give what a text refers to, each once, in order; within the repository as source_ids (`issues/12`)."""
    prose = without_code(markdown_prose(text))
    found = [*_numbers(prose, repository), *(_address(url, repository) for url in markdown_targets(prose))]
    strongest: dict[str, Link] = {}
    for link in found:
        if link is not None and (link.target not in strongest or strongest[link.target].relation == "mentions"):
            strongest[link.target] = link
    return tuple(strongest.values())


def _numbers(prose: str, repository: Repository) -> Iterator[Link]:
    for sign, pattern in (("#", _NUMBER), ("GH-", _GH_NUMBER)):
        for found in pattern.finditer(prose) if sign in prose else ():
            before = prose[max(0, found.start() - _LONGEST_NAME) : found.start()]
            other = _REPOSITORY_BEFORE.search(before.rpartition(" ")[2])
            if other is not None:
                before = before.removesuffix(other[0])
            elif before[-1:].isalnum() or before.endswith(("_", "&", "#", "/")):
                continue
            keyword = _KEYWORD_BEFORE.search(before[-_LONGEST_KEYWORD:])
            relation = (keyword and keyword.lastgroup) or "mentions"
            if other is None or other[1].lower() in repository.names:
                yield Link(relation, f"issues/{found[1]}", is_source_id=True)
            else:
                yield Link(relation, f"{repository.web}/{other[1]}/issues/{found[1]}")


def _address(url: str, repository: Repository) -> Link | None:
    """Tell an address of the repository itself from any other; relative ones lead into its files, which we lack."""
    if not url.startswith(("http://", "https://")):
        return None
    place = _PLACE.match(url)
    if place is None or place["host"] != repository.web or place["repository"].lower() not in repository.names:
        return Link("mentions", url)
    if place["comment"]:
        return Link("mentions", f"issues/comments/{place['comment']}", is_source_id=True)
    if place["review"]:
        return Link("mentions", f"pulls/comments/{place['review']}", is_source_id=True)
    return Link("mentions", f"issues/{place['number']}", is_source_id=True)
