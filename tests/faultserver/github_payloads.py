"""The JSON of GitHub's REST API: records of the size and with the keys that GitHub sends.

The shapes: https://docs.github.com/en/rest/issues/issues#get-an-issue, /rest/issues/comments, /rest/pulls/comments,
/rest/releases/releases. What a test stores in a record's `fields` replaces what stands here, whatever its type.
"""

import json
import zlib
from dataclasses import dataclass, field
from functools import cache
from typing import Any

API = "https://api.github.com"
WEB = "https://github.com"

Payload = dict[str, Any]

_REACTIONS = ("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes")
_FILLER = (
    "The load stops half way when the folder holds a file whose name ends in a blank; the log says nothing of it. " * 24
)


@dataclass(slots=True)
class Entry:
    """A record of a repository: an issue or pull request, a comment, a review comment, a release."""

    kind: str
    """The path of its listing: `issues`, `issues/comments`, `pulls/comments`, `releases`."""
    id: int
    number: int
    """What its path ends in: the number of an issue or pull request, the id of everything else."""
    created_at: str
    updated_at: str
    parent: int = 0
    """The number of the issue or pull request that a comment belongs to."""
    is_pull: bool = False
    comment_count: int = 0
    fields: Payload = field(default_factory=dict)
    """What differs from the ordinary, as `title`, `body`, `user` (a login or None), `labels` (names), `assignees`
    (logins), `milestone` (a title); other values are sent as they are."""
    rendered: bytes | None = None

    @property
    def path(self) -> str:
        """Its API path relative to the repository: what is our source_id."""
        return f"{self.kind}/{self.number}"

    @property
    def state(self) -> str:
        return str(self.fields.get("state", "open"))


def render(repository: str, entry: Entry) -> bytes:
    """Give a record as it stands in listings, from the bytes that it keeps; they are made when it has none."""
    if entry.rendered is None:
        given = {key: _expand(repository, key, value) for key, value in entry.fields.items()}
        payload = _SHAPES[entry.kind](repository, entry) | given
        if payload.get("assignees"):
            payload["assignee"] = payload["assignees"][0]
        entry.rendered = json.dumps(payload).encode()
    return entry.rendered


@cache
def user(login: str) -> Payload:
    url, number = f"{API}/users/{login}", zlib.crc32(login.encode())
    return {
        "login": login,
        "id": number,
        "node_id": node_id("U", number),
        "avatar_url": f"https://avatars.githubusercontent.com/u/{number}?v=4",
        "gravatar_id": "",
        "url": url,
        "html_url": f"{WEB}/{login}",
        "followers_url": f"{url}/followers",
        "following_url": f"{url}/following{{/other_user}}",
        "gists_url": f"{url}/gists{{/gist_id}}",
        "starred_url": f"{url}/starred{{/owner}}{{/repo}}",
        "subscriptions_url": f"{url}/subscriptions",
        "organizations_url": f"{url}/orgs",
        "repos_url": f"{url}/repos",
        "events_url": f"{url}/events{{/privacy}}",
        "received_events_url": f"{url}/received_events",
        "type": "User",
        "user_view_type": "public",
        "site_admin": False,
    }


def node_id(prefix: str, number: int) -> str:
    return f"{prefix}_kwDO{number:012x}"


def _issue(repository: str, entry: Entry) -> Payload:
    url = f"{API}/repos/{repository}/issues/{entry.number}"
    part = "pull" if entry.is_pull else "issues"
    payload = {
        "url": url,
        "repository_url": f"{API}/repos/{repository}",
        "labels_url": f"{url}/labels{{/name}}",
        "comments_url": f"{url}/comments",
        "events_url": f"{url}/events",
        "html_url": f"{WEB}/{repository}/{part}/{entry.number}",
        "id": entry.id,
        "node_id": node_id("PR" if entry.is_pull else "I", entry.id),
        "number": entry.number,
        "title": f"Loading stops at folder {entry.number}",
        "user": user("octocat"),
        "labels": [],
        "state": "open",
        "locked": False,
        "assignee": None,
        "assignees": [],
        "milestone": None,
        "comments": entry.comment_count,
        "created_at": entry.created_at,
        "updated_at": entry.updated_at,
        "closed_at": None,
        "author_association": "CONTRIBUTOR",
        "type": None,
        "active_lock_reason": None,
        "sub_issues_summary": {"total": 0, "completed": 0, "percent_completed": 0},
        "issue_dependencies_summary": {"blocked_by": 0, "total_blocked_by": 0, "blocking": 0, "total_blocking": 0},
        "body": f"Seen with folder {entry.number}.\n\n{_FILLER}",
        "closed_by": None,
        "reactions": _reactions(url),
        "timeline_url": f"{url}/timeline",
        "performed_via_github_app": None,
        "state_reason": None,
    }
    if entry.is_pull:
        html = str(payload["html_url"])
        links = {"url": f"{API}/repos/{repository}/pulls/{entry.number}", "html_url": html}
        links |= {"diff_url": f"{html}.diff", "patch_url": f"{html}.patch"}
        payload |= {"draft": False, "pull_request": links | {"merged_at": None}}
    return payload


def _comment(repository: str, entry: Entry) -> Payload:
    url = f"{API}/repos/{repository}/{entry.path}"
    return {
        "url": url,
        "html_url": f"{WEB}/{repository}/issues/{entry.parent}#issuecomment-{entry.id}",
        "issue_url": f"{API}/repos/{repository}/issues/{entry.parent}",
        "id": entry.id,
        "node_id": node_id("IC", entry.id),
        "user": user("hubot"),
        "created_at": entry.created_at,
        "updated_at": entry.updated_at,
        "body": f"The same here, with {entry.parent} files.",
        "author_association": "NONE",
        "reactions": _reactions(url),
        "performed_via_github_app": None,
    }


def _review_comment(repository: str, entry: Entry) -> Payload:
    pull_url, html_url = f"{API}/repos/{repository}/pulls/{entry.parent}", f"{WEB}/{repository}/pull/{entry.parent}"
    kept = ("node_id", "user", "created_at", "updated_at", "body", "author_association", "id", "reactions", "url")
    comment = _comment(repository, entry)
    return {key: comment[key] for key in kept} | {
        "pull_request_review_id": entry.id - 1,
        "diff_hunk": "@@ -1,3 +1,4 @@ def load(folder):",
        "path": "src/load.py",
        "commit_id": f"{entry.id:040x}",
        "original_commit_id": f"{entry.id:040x}",
        "html_url": f"{html_url}#discussion_r{entry.id}",
        "pull_request_url": pull_url,
        "_links": {
            "self": {"href": comment["url"]},
            "html": {"href": f"{html_url}#discussion_r{entry.id}"},
            "pull_request": {"href": pull_url},
        },
        "start_line": None,
        "line": 2,
        "original_line": 2,
        "side": "RIGHT",
        "subject_type": "line",
    }


def _release(repository: str, entry: Entry) -> Payload:
    url, tag = f"{API}/repos/{repository}/releases/{entry.id}", f"v1.0.{entry.id % 1000}"
    return {
        "url": url,
        "assets_url": f"{url}/assets",
        "upload_url": f"https://uploads.github.com/repos/{repository}/releases/{entry.id}/assets{{?name,label}}",
        "html_url": f"{WEB}/{repository}/releases/tag/{tag}",
        "id": entry.id,
        "author": user("octocat"),
        "node_id": node_id("RE", entry.id),
        "tag_name": tag,
        "target_commitish": "main",
        "name": tag,
        "draft": False,
        "immutable": False,
        "prerelease": False,
        "created_at": entry.created_at,
        "updated_at": entry.updated_at,
        "published_at": entry.created_at,
        "assets": [],
        "tarball_url": f"{API}/repos/{repository}/tarball/{tag}",
        "zipball_url": f"{API}/repos/{repository}/zipball/{tag}",
        "body": "Folders whose names end in a blank are loaded.",
    }


_SHAPES = {"issues": _issue, "issues/comments": _comment, "pulls/comments": _review_comment, "releases": _release}


def _reactions(url: str) -> Payload:
    return {"url": f"{url}/reactions", "total_count": 0} | dict.fromkeys(_REACTIONS, 0)


def _expand(repository: str, key: str, value: Any) -> Any:  # noqa: ANN401  # a JSON value: a test may set any field to any
    """Make a login a user and a name a label or milestone; everything else stays as a test has put it."""
    if key in {"user", "author"} and isinstance(value, str):
        return user(value)
    if key in {"labels", "assignees"} and isinstance(value, list):
        one = _label if key == "labels" else user
        return [one(name) if isinstance(name, str) else name for name in value]
    return _milestone(repository, value) if key == "milestone" and isinstance(value, str) else value


def _milestone(repository: str, title: str) -> Payload:
    number, url = zlib.crc32(title.encode()), f"{API}/repos/{repository}/milestones/1"
    return {
        "url": url,
        "html_url": f"{WEB}/{repository}/milestone/1",
        "labels_url": f"{url}/labels",
        "id": number,
        "node_id": node_id("MI", number),
        "number": 1,
        "title": title,
        "description": None,
        "creator": user("octocat"),
        "open_issues": 1,
        "closed_issues": 0,
        "state": "open",
        "created_at": "2024-01-01T00:00:00Z",
        "updated_at": "2024-01-01T00:00:00Z",
        "due_on": None,
        "closed_at": None,
    }


def _label(name: str) -> Payload:
    number = zlib.crc32(name.encode())
    return {
        "id": number,
        "node_id": node_id("LA", number),
        "name": name,
        "color": "d73a4a",
        "default": False,
        "description": None,
    }
