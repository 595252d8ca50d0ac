"""Issues as GitHub's listing has them, made from a seed and kept as bytes."""

import json
import random
from bisect import bisect_left
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate

SCOPE = "bench/issues"
_START = datetime(2024, 1, 1, tzinfo=UTC)
_TIE_EVERY = 50
_USERS, _LABELS, _MILESTONES, _WORDS = 2_000, 60, 40, 20_000
_SYLLABLES = [
    "ka",
    "to",
    "mi",
    "ren",
    "sol",
    "ver",
    "da",
    "li",
    "pon",
    "que",
    "str",
    "an",
    "ber",
    "gil",
    "fu",
    "xo",
    "ny",
    "ed",
]


class Writer:
    """Makes issues from a seed: the same ones in every run."""

    def __init__(self, api: str) -> None:
        """`api` is the address that the issues' links begin with."""
        self.api = api
        self.random = random.Random(3)  # noqa: S311 -- the same issues in every run is what is wanted
        self.words = ["".join(self.random.choices(_SYLLABLES, k=1 + n % 4)) for n in range(_WORDS)]
        self.weights = list(accumulate(1 / (rank + 10) for rank in range(_WORDS)))  # as words are in any language
        self.users = [self._user(n) for n in range(_USERS)]
        self.labels = [self._label(n) for n in range(_LABELS)]
        self.milestones = [self._milestone(n) for n in range(_MILESTONES)]

    def text(self, words: int) -> str:
        """Give so many words, the frequent ones often."""
        return " ".join(self.random.choices(self.words, cum_weights=self.weights, k=words))

    def body(self) -> str:
        """Give 2 to 3 KB of Markdown: prose, a list, code, a mention and references."""
        prose = [self.text(self.random.randint(50, 90)) for _ in range(4)]
        steps = "\n".join(f"{n}. {self.text(8)}" for n in (1, 2, 3))
        number, user = self.random.randint(1, 9_999), self.random.randrange(_USERS)
        return (
            f"{prose[0]}\n\n### Steps\n\n{steps}\n\n{prose[1]}\n\n```python\n{self.text(12)}\n```\n\n"
            f"See #{number} and https://example.org/{number}, cc @user{user}. {prose[2]}\n\n{prose[3]}\n"
        )

    def issue(self, number: int, updated_at: datetime) -> bytes:
        """Give one issue as the listing has it."""
        pick, share = self.random.choice, self.random.random
        address = f"{self.api}/repos/{SCOPE}/issues/{number}"
        assignees = [pick(self.users)] if share() < 0.3 else []  # noqa: PLR2004 -- about what real repositories have
        is_closed = share() < 0.6  # noqa: PLR2004 -- as above
        created_at = updated_at - timedelta(days=self.random.randint(0, 300), seconds=self.random.randint(0, 86_400))
        issue = {
            "url": address,
            "repository_url": f"{self.api}/repos/{SCOPE}",
            "labels_url": f"{address}/labels{{/name}}",
            "comments_url": f"{address}/comments",
            "events_url": f"{address}/events",
            "html_url": f"https://github.example/{SCOPE}/issues/{number}",
            "id": 1_000_000 + number,
            "node_id": f"I_kwDOA{number:010d}",
            "number": number,
            "title": self.text(8),
            "user": pick(self.users),
            "labels": self.random.sample(self.labels, self.random.randint(0, 3)),
            "state": "closed" if is_closed else "open",
            "locked": False,
            "assignee": assignees[0] if assignees else None,
            "assignees": assignees,
            "milestone": pick(self.milestones) if share() < 0.3 else None,  # noqa: PLR2004 -- as above
            "comments": self.random.randint(0, 20),
            "created_at": _instant(created_at),
            "updated_at": _instant(updated_at),
            "closed_at": _instant(updated_at) if is_closed else None,
            "author_association": pick(("NONE", "CONTRIBUTOR", "MEMBER")),
            "active_lock_reason": None,
            "body": self.body(),
            "reactions": {"url": f"{address}/reactions", **dict.fromkeys(_REACTIONS, 0)},
            "timeline_url": f"{address}/timeline",
            "performed_via_github_app": None,
            "state_reason": "completed" if is_closed else None,
        }
        return json.dumps(issue, separators=(",", ":")).encode()

    def _user(self, number: int) -> dict[str, object]:
        login = f"user{number}"
        address = f"{self.api}/users/{login}"
        names = ("followers", "subscriptions", "orgs", "repos", "received_events")
        return {
            "login": login,
            "id": 50_000 + number,
            "node_id": f"MDQ6VXNlcj{number:08d}",
            "avatar_url": f"https://avatars.example/u/{50_000 + number}?v=4",
            "gravatar_id": "",
            "url": address,
            "html_url": f"https://github.example/{login}",
            "following_url": f"{address}/following{{/other_user}}",
            "gists_url": f"{address}/gists{{/gist_id}}",
            "starred_url": f"{address}/starred{{/owner}}{{/repo}}",
            "events_url": f"{address}/events{{/privacy}}",
            **{f"{name}_url": f"{address}/{name}" for name in names},
            "type": "User",
            "user_view_type": "public",
            "site_admin": False,
        }

    def _label(self, number: int) -> dict[str, object]:
        name = f"area-{self.words[number]}"
        return {
            "id": 90_000 + number,
            "node_id": f"LA_kwDOA{number:08d}",
            "url": f"{self.api}/repos/{SCOPE}/labels/{name}",
            "name": name,
            "color": f"{number * 4099 % 0xFFFFFF:06x}",
            "default": False,
            "description": self.text(5),
        }

    def _milestone(self, number: int) -> dict[str, object]:
        address = f"{self.api}/repos/{SCOPE}/milestones/{number}"
        return {
            "url": address,
            "html_url": f"https://github.example/{SCOPE}/milestone/{number}",
            "labels_url": f"{address}/labels",
            "id": 70_000 + number,
            "node_id": f"MI_kwDOA{number:08d}",
            "number": number,
            "title": f"v1.{number}",
            "description": self.text(12),
            "creator": self.users[number],
            "open_issues": number,
            "closed_issues": 2 * number,
            "state": "open",
            "created_at": _instant(_START),
            "updated_at": _instant(_START),
            "due_on": None,
            "closed_at": None,
        }


_REACTIONS = ("total_count", "+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes")


class Repository:
    """The issues in the listing's order: by `updated_at`, some of which are shared, then by number."""

    def __init__(self, api: str, count: int) -> None:
        """Write `count` issues."""
        self.writer = Writer(api)
        self.now = _START
        self.rows: list[tuple[str, int, bytes]] = []
        self.index: dict[int, bytes] = {}
        self._append([(number, None) for number in range(1, count + 1)])

    def page(self, since: str, number: int, size: int) -> tuple[bytes, bool]:
        """Give the JSON of one page of what changed at `since` or later, and whether another one follows."""
        start = bisect_left(self.rows, (since,)) + (number - 1) * size
        rows = self.rows[start : start + size]
        return b"[" + b",".join(row[2] for row in rows) + b"]", start + size < len(self.rows)

    def change(self, share: float) -> int:
        """Edit this share of the issues; give how many that are."""
        chosen = set(self.writer.random.sample(sorted(self.index), round(share * len(self.index))))
        moved = [(number, content) for _, number, content in self.rows if number in chosen]
        self.rows = [row for row in self.rows if row[1] not in chosen]
        self._append(moved)
        return len(moved)

    def _append(self, issues: Sequence[tuple[int, bytes | None]]) -> None:
        for place, (number, content) in enumerate(issues):
            self.now += timedelta(seconds=0 if place % _TIE_EVERY == 1 else 97)
            if content is None:
                content = self.writer.issue(number, self.now)  # noqa: PLW2901 -- from here on it is there
            else:
                edited = {"body": self.writer.body(), "updated_at": _instant(self.now)}
                content = json.dumps({**json.loads(content), **edited}, separators=(",", ":")).encode()  # noqa: PLW2901
            self.rows.append((_instant(self.now), number, content))
            self.index[number] = content


def _instant(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
