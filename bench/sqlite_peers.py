"""What sqlite-utils does with the issues: as fast as it can, with an index, as github-to-sqlite does, and as we do."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from bench.listing import LISTING, QUERY, document, report

_URL = re.compile(r"https?://[^\s<>()\[\]\"'`]+")
_NUMBER = re.compile(r"#(\d+)\b")


def json_columns(api: str, folder: Path) -> None:
    """Upsert each page in a transaction of its own; objects and lists become JSON columns, as sqlite-utils does it."""
    _sqlite(api, folder, lambda _database, issues: issues)


def searched(api: str, folder: Path) -> None:
    """Upsert as `json_columns` does, with a full-text index (FTS5, stemmed) that triggers keep."""
    _sqlite(api, folder, lambda _database, issues: issues, ("title", "body"))


def extracted(api: str, folder: Path) -> None:
    """Upsert each page as github-to-sqlite shapes it: no addresses, users and milestones in tables, labels beside."""
    _sqlite(api, folder, _extract)


def same_work(api: str, folder: Path) -> None:
    """Do all that we do: a log of what came, what changed, documents and an index of them, versions, links."""

    def prepare(database: Any, issues: list[Any]) -> list[Any]:  # noqa: ANN401 -- as below
        now = datetime.now(UTC).isoformat()
        records = {f"issues/{issue['number']}": json.dumps(issue) for issue in issues}
        hashes = {name: sha256(text.encode()).hexdigest() for name, text in records.items()}
        known = _known(database, list(records))
        fresh = {name: issue for name, issue in zip(records, issues, strict=True) if known.get(name) != hashes[name]}
        documents = [_hashed(document(issue)) for issue in fresh.values()]
        with database.conn:
            database["raw"].insert_all({"id": n, "fetched_at": now, "payload": records[n]} for n in fresh)
            database["records"].upsert_all(({"id": n, "record_hash": hashes[n]} for n in fresh), pk="id")
            _forget(database, [one["id"] for one in documents], now)
            database["versions"].insert_all(
                ({**one, "valid_from": now, "valid_to": None} for one in documents), pk=("id", "valid_from")
            )
            links = (link for one in documents for link in _links(one))
            database["links"].insert_all(links, pk=("id", "target"), ignore=True)
        return documents

    _sqlite(api, folder, prepare, ("title", "content"))


def _known(database: Any, names: list[str]) -> dict[str, str]:  # noqa: ANN401 -- as below
    if not database["records"].exists():
        return {}
    marks = ", ".join("?" * len(names))
    return dict(database.execute(f"SELECT id, record_hash FROM records WHERE id IN ({marks})", names).fetchall())  # noqa: S608


def _forget(database: Any, names: list[str], now: str) -> None:  # noqa: ANN401 -- as below
    """End what is replaced: the present version of each document, and its links."""
    if database["versions"].exists():
        marks = ", ".join("?" * len(names))
        database["links"].delete_where(f"id IN ({marks})", names)
        ended = f"UPDATE versions SET valid_to = ? WHERE valid_to IS NULL AND id IN ({marks})"  # noqa: S608
        database.execute(ended, [now, *names])


def _hashed(one: dict[str, Any]) -> dict[str, Any]:
    meaning = json.dumps({name: value for name, value in one.items() if not name.endswith("_at")})
    text = one["content"] or one["title"]
    return {**one, **{n: sha256(t.encode()).hexdigest() for n, t in (("content_hash", meaning), ("text_hash", text))}}


def _links(one: dict[str, Any]) -> Iterator[dict[str, str]]:
    text = one["content"] or ""
    targets = [*(f"github:bench/issues:{number}" for number in _NUMBER.findall(text)), *_URL.findall(text)]
    yield from ({"id": one["id"], "relation": "mentions", "target": target} for target in targets)


def _sqlite(
    api: str, folder: Path, prepare: Callable[[Any, list[Any]], list[Any]], indexed: tuple[str, ...] = ()
) -> None:
    sqlite_utils, httpx = imports()
    database = sqlite_utils.Database(folder / "issues.db")
    table = database["issues"]
    since = next(iter(database.query("SELECT max(updated_at) AS at FROM issues")))["at"] if table.exists() else None
    with httpx.Client(base_url=api) as client:
        response = client.get(LISTING, params={**QUERY, **({"since": since} if since else {})})
        while True:
            table.upsert_all(prepare(database, response.raise_for_status().json()), pk="id", alter=True)
            if indexed and table.detect_fts() is None:
                table.enable_fts(indexed, tokenize="porter", create_triggers=True)
            if "next" not in response.links:
                break
            response = client.get(response.links["next"]["url"])
    report(table.count)
    database.close()


def imports() -> tuple[Any, Any]:
    """Import what sqlite-utils and a client need."""
    import httpx  # noqa: PLC0415 -- the program's own environment has it
    import sqlite_utils  # type: ignore[import-not-found]  # noqa: PLC0415 -- as above

    return sqlite_utils, httpx


def _extract(database: Any, issues: list[Any]) -> list[Any]:  # noqa: ANN401 -- sqlite-utils is not installed where this is checked
    """Store whom and what a page's issues name, once each; give the issues with the ids in their place."""
    rows: list[Any] = []
    users: dict[int, Any] = {}
    milestones: dict[int, Any] = {}
    labels: dict[int, Any] = {}
    issue_labels: list[dict[str, int]] = []
    for issue in issues:
        row = {key: value for key, value in issue.items() if not key.endswith("url")}
        people = [row["user"], *row.pop("assignees")]
        milestone = row["milestone"]
        if milestone:
            people.append(milestone["creator"])
            milestones[milestone["id"]] = {**milestone, "creator": milestone["creator"]["id"]}
        users |= {user["id"]: user for user in people}
        for label in row.pop("labels"):
            labels[label["id"]] = label
            issue_labels.append({"issues_id": row["id"], "labels_id": label["id"]})
        names = ("user", "assignee", "milestone")
        rows.append({**row, **{name: row[name]["id"] if row[name] else None for name in names}})
    for name, found in (("users", users), ("milestones", milestones), ("labels", labels)):
        database[name].upsert_all(found.values(), pk="id", alter=True)
    if issue_labels:
        database["issues_labels"].upsert_all(issue_labels, pk=("issues_id", "labels_id"))
    return rows
