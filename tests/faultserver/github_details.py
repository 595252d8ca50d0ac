"""The JSON of what GitHub says beside its records: repositories, accounts, and pull requests as `/pulls` has them.

Complete enough to pass GitHub's OpenAPI document: https://github.com/github/rest-api-description.
"""

import json
from typing import Any

from tests.faultserver.github_payloads import API, WEB, Entry, Payload, node_id, render, user
from tests.faultserver.github_repository import Repository

_PARTS = {
    "archive": "/{archive_format}{/ref}",
    "assignees": "/assignees{/user}",
    "blobs": "/git/blobs{/sha}",
    "branches": "/branches{/branch}",
    "collaborators": "/collaborators{/collaborator}",
    "comments": "/comments{/number}",
    "commits": "/commits{/sha}",
    "compare": "/compare/{base}...{head}",
    "contents": "/contents/{+path}",
    "contributors": "/contributors",
    "deployments": "/deployments",
    "downloads": "/downloads",
    "events": "/events",
    "forks": "/forks",
    "git_commits": "/git/commits{/sha}",
    "git_refs": "/git/refs{/sha}",
    "git_tags": "/git/tags{/sha}",
    "hooks": "/hooks",
    "issue_comment": "/issues/comments{/number}",
    "issue_events": "/issues/events{/number}",
    "issues": "/issues{/number}",
    "keys": "/keys{/key_id}",
    "labels": "/labels{/name}",
    "languages": "/languages",
    "merges": "/merges",
    "milestones": "/milestones{/number}",
    "notifications": "/notifications{?since,all,participating}",
    "pulls": "/pulls{/number}",
    "releases": "/releases{/id}",
    "stargazers": "/stargazers",
    "statuses": "/statuses/{sha}",
    "subscribers": "/subscribers",
    "subscription": "/subscription",
    "tags": "/tags",
    "teams": "/teams",
    "trees": "/git/trees{/sha}",
}
"""The URL templates of a repository: `<name>_url` and what follows the repository's own URL."""

_NOTHING_KNOWN = ("description", "homepage", "language", "mirror_url", "license")
_COUNTS = ("forks", "forks_count", "size", "stargazers_count", "watchers", "watchers_count", "network_count")
_ABSENT = ("has_downloads", "has_projects", "has_wiki", "has_pages", "has_discussions", "disabled", "fork")
_PERSON = ("bio", "blog", "company", "email", "hireable", "location", "name")
_PERSON_COUNTS = ("followers", "following", "public_gists", "public_repos", "collaborators", "disk_usage")
_PRIVATE_COUNTS = ("owned_private_repos", "private_gists", "total_private_repos")


def repository_payload(repository: Repository) -> Payload:
    """Give a repository: https://docs.github.com/en/rest/repos/repos#get-a-repository."""
    name, open_count = repository.full_name, len(repository.ordered("issues", "created", "open"))
    owner, _, short = name.partition("/")
    url, html_url = f"{API}/repos/{name}", f"{WEB}/{name}"
    about: Payload = {
        "id": repository.id,
        "node_id": node_id("R", repository.id),
        "name": short,
        "full_name": name,
        "private": repository.private,
        "visibility": "private" if repository.private else "public",
        "owner": user(owner),
        "html_url": html_url,
        "url": url,
        "git_url": f"git://github.com/{name}.git",
        "ssh_url": f"git@github.com:{name}.git",
        "clone_url": f"{html_url}.git",
        "svn_url": html_url,
        "default_branch": "main",
        "has_issues": repository.has_issues,
        "has_pull_requests": repository.has_pulls,
        "archived": repository.archived,
        "open_issues": open_count,
        "open_issues_count": open_count,
        "subscribers_count": 0,
    }
    about |= dict.fromkeys(("created_at", "updated_at", "pushed_at"), repository.created_at)
    about |= dict.fromkeys(_NOTHING_KNOWN) | dict.fromkeys(_COUNTS, 0) | dict.fromkeys(_ABSENT, False)
    return about | {f"{part}_url": url + rest for part, rest in _PARTS.items()}


def account_payload(login: str) -> Payload:
    """Give an account as it sees itself: https://docs.github.com/en/rest/users/users#get-the-authenticated-user."""
    times = dict.fromkeys(("created_at", "updated_at"), "2020-01-01T00:00:00Z")
    counts: Payload = dict.fromkeys(_PERSON_COUNTS + _PRIVATE_COUNTS, 0)
    return user(login) | dict.fromkeys(_PERSON) | counts | times | {"two_factor_authentication": True}


def pull_payload(repository: Repository, entry: Entry, *, is_alone: bool = False) -> Payload:
    """Give a pull request: https://docs.github.com/en/rest/pulls/pulls; `is_alone` has what no listing says."""
    issue: Payload = json.loads(render(repository.full_name, entry))
    base = f"{API}/repos/{repository.full_name}"
    url, sha = f"{base}/pulls/{entry.number}", f"{entry.id:040x}"
    urls = {
        "url": url,
        "html_url": issue["html_url"],
        "diff_url": issue["pull_request"]["diff_url"],
        "patch_url": issue["pull_request"]["patch_url"],
        "issue_url": issue["url"],
        "comments_url": issue["comments_url"],
        "review_comments_url": f"{url}/comments",
        "review_comment_url": f"{base}/pulls/comments{{/number}}",
        "commits_url": f"{url}/commits",
        "statuses_url": f"{base}/statuses/{sha}",
    }
    kept = (
        *("number", "state", "locked", "title", "user", "body", "created_at", "updated_at", "closed_at", "milestone"),
        *("assignee", "assignees", "labels", "draft", "author_association", "active_lock_reason"),
    )
    payload = {key: issue[key] for key in kept} | urls
    payload |= {
        "id": entry.id + 1_000_000_000,  # another number space than that of the issue it also is
        "node_id": node_id("PR", entry.id),
        "merged_at": issue["pull_request"]["merged_at"],
        "merge_commit_sha": None,
        "requested_reviewers": [],
        "requested_teams": [],
        "head": _branch(repository, issue, f"change-{entry.number}", sha),
        "base": _branch(repository, issue, "main", sha),
        "auto_merge": None,
        "_links": _links(urls),
    }
    return payload | _counts(payload, entry) if is_alone else payload


def _branch(repository: Repository, issue: Payload, ref: str, sha: str) -> Payload:
    owner = repository.full_name.partition("/")[0]
    about = repository_payload(repository)
    return {"label": f"{owner}:{ref}", "ref": ref, "sha": sha, "user": issue["user"], "repo": about}


def _links(urls: dict[str, Any]) -> Payload:
    names = {"self": "url", "html": "html_url"}
    names |= {name: f"{name}_url" for name in ("issue", "comments", "review_comments", "review_comment")}
    names |= {name: f"{name}_url" for name in ("commits", "statuses")}
    return {name: {"href": urls[key]} for name, key in names.items()}


def _counts(payload: Payload, entry: Entry) -> Payload:
    is_merged = payload["merged_at"] is not None
    return dict.fromkeys(("additions", "deletions", "review_comments"), 0) | {
        "merged": is_merged,
        "merged_by": payload["user"] if is_merged else None,
        "mergeable": None,
        "mergeable_state": "unknown",
        "maintainer_can_modify": False,
        "comments": entry.comment_count,
        "commits": 1,
        "changed_files": 1,
    }
