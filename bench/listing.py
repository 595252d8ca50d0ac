"""What everybody reads, and what the others make of it by a plain mapping."""

import json
from typing import Any

LISTING = "/repos/bench/issues/issues"
QUERY = {"state": "all", "sort": "updated", "direction": "asc", "per_page": 100}


def report(stored: int) -> None:
    """Say how many issues are there: everybody has to have them all."""
    print(json.dumps({"stored": stored}))


def document(issue: dict[str, Any]) -> dict[str, Any]:
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
