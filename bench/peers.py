"""What others do with the same issues: `python bench/peers.py PROGRAM API FOLDER`, run in an environment of their own.

Each program reads the listing from where it stopped, as its documentation shows for GitHub, and makes what it read
durable. `bench.sync` runs this file with the interpreter of `.venv/peers`; FOLDER keeps their files between two runs.
Libraries are imported by the program that uses them, so that PROGRAM-imports tells what the imports alone cost.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

REQUIREMENTS = ("dlt[duckdb]==1.31.0", "duckdb==1.5.5", "sqlite-utils==4.2.1", "httpx==0.28.1")
_LISTING = "/repos/bench/issues/issues"
_QUERY = {"state": "all", "sort": "updated", "direction": "asc", "per_page": 100}


def dlt_nested(api: str, folder: Path) -> None:
    """Merge the issues as they are: dlt makes columns of the objects in them and child tables of the lists.

    After https://dlthub.com/docs/tutorial/load-data-from-an-api: RESTClient, `incremental`, merge by primary key.
    """
    _dlt(api, folder, lambda issues: issues)


def dlt_flat(api: str, folder: Path) -> None:
    """Merge documents of our columns, made by a plain mapping before dlt sees them: nothing is left to be unnested."""
    _dlt(api, folder, lambda issues: [_document(issue) for issue in issues])


def _dlt(api: str, folder: Path, prepare: Callable[[list[Any]], Iterable[Any]]) -> None:
    dlt, rest_client = dlt_imports()
    updated_at = dlt.sources.incremental("updated_at", initial_value="2000-01-01T00:00:00Z")

    def issues(updated_at: Any = updated_at) -> Iterator[Any]:  # noqa: ANN401 -- dlt injects its own object
        client = rest_client.RESTClient(base_url=api, paginator=rest_client.paginators.HeaderLinkPaginator())
        for page in client.paginate(_LISTING, params={**_QUERY, "since": updated_at.last_value}):
            yield prepare(page)

    pipeline = dlt.pipeline(
        "issues",
        pipelines_dir=str(folder / "pipelines"),
        destination=dlt.destinations.duckdb(str(folder / "warehouse.duckdb")),
        dataset_name="github",
    )
    resource = dlt.resource(issues, name="issues", primary_key="id", write_disposition="merge")
    pipeline.run(resource()).raise_on_failed_jobs()
    with pipeline.sql_client() as client:
        _report(client.execute_sql("SELECT count(DISTINCT id) FROM issues")[0][0])


def dlt_imports() -> tuple[Any, Any]:
    """Import what a dlt pipeline into DuckDB needs; it shall measure itself to nobody, and be quiet about null columns.

    https://dlthub.com/docs/reference/telemetry
    """
    os.environ |= {"RUNTIME__DLTHUB_TELEMETRY": "false", "RUNTIME__LOG_LEVEL": "ERROR"}
    import dlt  # type: ignore[import-not-found]  # noqa: PLC0415 -- see the module's docstring, for both
    import duckdb  # noqa: F401, PLC0415 -- dlt imports it when it loads
    from dlt.sources.helpers import rest_client  # type: ignore[import-not-found]  # noqa: PLC0415 -- as above

    return dlt, rest_client


def sqlite_json(api: str, folder: Path) -> None:
    """Upsert each page in a transaction of its own; objects and lists become JSON columns, as sqlite-utils does it."""
    _sqlite(api, folder, lambda _database, issues: issues)


def sqlite_extracted(api: str, folder: Path) -> None:
    """Upsert each page as github-to-sqlite shapes it: no addresses, users and milestones in tables, labels beside."""
    _sqlite(api, folder, _extract)


def sqlite_documents(api: str, folder: Path) -> None:
    """Do all that we do: keep what came, and upsert documents of our columns, made by a plain mapping."""

    def prepare(database: Any, issues: list[Any]) -> list[Any]:  # noqa: ANN401 -- as below
        database["raw"].upsert_all(({"id": one["id"], "payload": json.dumps(one)} for one in issues), pk="id")
        return [_document(issue) for issue in issues]

    _sqlite(api, folder, prepare)


def _sqlite(api: str, folder: Path, prepare: Callable[[Any, list[Any]], list[Any]]) -> None:
    sqlite_utils, httpx = sqlite_imports()
    database = sqlite_utils.Database(folder / "issues.db")
    table = database["issues"]
    since = next(iter(database.query("SELECT max(updated_at) AS at FROM issues")))["at"] if table.exists() else None
    with httpx.Client(base_url=api) as client:
        response = client.get(_LISTING, params={**_QUERY, **({"since": since} if since else {})})
        while True:
            table.upsert_all(prepare(database, response.raise_for_status().json()), pk="id", alter=True)
            if "next" not in response.links:
                break
            response = client.get(response.links["next"]["url"])
    _report(table.count)
    database.close()


def _report(stored: int) -> None:
    """Say how many issues are there: everybody has to have them all."""
    print(json.dumps({"stored": stored}))


def sqlite_imports() -> tuple[Any, Any]:
    """Import what sqlite-utils and a client need."""
    import httpx  # noqa: PLC0415 -- see the module's docstring
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


def _document(issue: dict[str, Any]) -> dict[str, Any]:
    """Give the columns of our documents: lists and the rest as JSON text, so that they stay in the row."""
    labels = [f"label:{label['name'].lower()}" for label in issue["labels"]]
    people = [user["login"] for user in (issue["user"], *issue["assignees"])]
    return {
        "id": f"github:bench/issues:{issue['number']}",
        "doc_type": "issue",
        "title": issue["title"],
        "content": issue["body"],
        "author": issue["user"]["login"],
        "assignees": json.dumps([user["login"] for user in issue["assignees"]]),
        "participants": json.dumps(people),
        "tags": json.dumps([f"status:{issue['state']}", *labels]),
        "url": issue["html_url"],
        "created_at": issue["created_at"],
        "updated_at": issue["updated_at"],
        "metadata": json.dumps({"number": issue["number"], "node_id": issue["node_id"]}),
    }


PROGRAMS: dict[str, Callable[[str, Path], None]] = {
    "dlt-nested": dlt_nested,
    "dlt-flat": dlt_flat,
    "sqlite-json": sqlite_json,
    "sqlite-extracted": sqlite_extracted,
    "sqlite-documents": sqlite_documents,
}
IMPORTS: dict[str, Callable[[], object]] = {"dlt-imports": dlt_imports, "sqlite-imports": sqlite_imports}


def main() -> None:
    """Run one program."""
    name, *arguments = sys.argv[1:]
    if name in IMPORTS:
        IMPORTS[name]()
    else:
        api, folder = arguments
        PROGRAMS[name](api, Path(folder))


if __name__ == "__main__":
    main()
