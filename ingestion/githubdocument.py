"""GitHub's records as documents: issues, pull requests, comments, review comments and releases.

https://docs.github.com/en/rest/issues/issues#get-an-issue shows an issue; the others are shaped alike.
"""

import re
from collections.abc import Iterable, Iterator

from ingestion.errors import RecordError
from ingestion.githubrecord import Asset, Item, User, instant, read
from ingestion.model import Attachment, Document, Link, Record
from ingestion.references import Repository, references
from ingestion.text import clean

_THREAD = re.compile(r"/(?:issues|pulls?)/(\d+)(?:$|#)")
_REPLIES = {"comment", "review_comment"}


def github_document(scope: str, record: Record) -> Document:
    """Map one record to its document.

    Raises:
        RecordError: it is not what its listing holds.
    """
    item = read(record.payload)
    if item.id is None and item.number is None:
        raise RecordError("has neither an id nor a number: not a record of GitHub")
    title, content = _title(record, item), clean(item.body or "")
    written = content if record.record_type in _REPLIES else f"{title}\n\n{content}"
    url = item.html_url or item.url or ""
    author = _login(item.user or item.author)
    assignees = tuple(name for name in map(_login, item.assignees or ()) if name)
    people = (author, *assignees) if author else assignees
    return Document(
        source_id=record.source_id,
        doc_type=record.record_type,
        title=title,
        content=content,
        url=url,
        author=author,
        assignees=assignees,
        participants=tuple(name.lower() for name in people),
        participants_raw=people,
        tags=tuple(_tags(record, item, assignees)),
        channel=scope,
        thread_id=_thread(record, item),
        created_at=instant(item.published_at) or instant(item.created_at),
        updated_at=record.updated_at or instant(item.updated_at),
        metadata=_metadata(item),
        attachments=tuple(_assets(item.assets or ())),
        links=(*_own_links(record, item, url), *references(written, _repository(scope, url))),
    )


def _title(record: Record, item: Item) -> str:
    if record.record_type in _REPLIES:
        kind = "Comment on" if record.record_type == "comment" else f"Review of {item.path or 'a file'} in"
        return f"{kind} #{_number(item) or '?'}"
    return " ".join(clean(item.title or item.name or item.tag_name or "").split()) or record.source_id


def _tags(record: Record, item: Item, assignees: Iterable[str]) -> Iterator[str]:
    state = item.state
    if record.record_type == "pull_request" and (item.merged_at or (item.pull_request and item.pull_request.merged_at)):
        state = "merged"
    if state:
        yield f"status:{state.lower()}"
    if item.state_reason:
        yield f"resolution:{item.state_reason.lower()}"
    yield from (f"label:{label.name.lower()}" for label in item.labels or () if label.name)
    if item.milestone and item.milestone.title:
        yield f"milestone:{item.milestone.title.lower()}"
    yield from (f"assignee:{name.lower()}" for name in assignees)
    if item.tag_name:
        yield f"version:{item.tag_name.lower()}"
    yield from (name for name in ("draft", "prerelease", "locked") if getattr(item, name))


def _thread(record: Record, item: Item) -> str | None:
    """Give the issue that a comment belongs to; an issue begins its own thread, a release has none."""
    if record.record_type in _REPLIES:
        number = _number(item)
        return number and f"issues/{number}"
    return record.source_id if record.record_type in {"issue", "pull_request"} else None


def _number(item: Item) -> str | None:
    """Give the number of the issue that a comment belongs to; some of 2012 name it in no field but their address."""
    found = _THREAD.search(item.issue_url or item.pull_request_url or item.html_url or "")
    return found[1] if found else None


def _own_links(record: Record, item: Item, url: str) -> Iterator[Link]:
    if "moved" in record.attributes:
        yield Link("moved_to", url)
    if item.in_reply_to_id is not None:
        yield Link("reply_to", f"pulls/comments/{item.in_reply_to_id}", is_source_id=True)


def _metadata(item: Item) -> dict[str, object]:
    facts = {"number": item.number, "path": item.path, "tag": item.tag_name}
    return {name: value for name, value in facts.items() if value is not None}


def _assets(assets: Iterable[Asset]) -> Iterator[Attachment]:
    """Give the files of a release, by their addresses."""
    for asset in assets:
        if asset.name:
            media_type = asset.content_type or "application/octet-stream"
            yield Attachment(asset.name, media_type, asset.browser_download_url)


def _repository(scope: str, url: str) -> Repository:
    """Tell from a record's page where its repository is: `https://HOST/OWNER/NAME/issues/1`."""
    scheme, _, host, owner, name, *_ = *url.split("/", 5), "", "", "", "", ""
    return Repository(f"{scheme}//{host}", frozenset({scope.lower(), f"{owner}/{name}".lower()}))


def _login(user: User | None) -> str | None:
    """Give an account's name; the accounts of deleted users are null."""
    return (user.login or None) if user else None
