"""What others do with the same issues: `python -m bench.peers PROGRAM API FOLDER`, in an environment of their own.

Each program reads the listing from where it stopped, as its documentation shows for GitHub, and makes what it read
durable. `bench.sync` runs this module with the interpreter of `.venv/peers`; FOLDER keeps their files between two runs.
Libraries are imported by the program that uses them, so that PROGRAM-imports tells what the imports alone cost.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from bench import sqlite_peers
from bench.listing import LISTING, QUERY, document, report

REQUIREMENTS = ("dlt[duckdb]==1.31.0", "duckdb==1.5.5", "sqlite-utils==4.2.1", "httpx==0.28.1")


def dlt_nested(api: str, folder: Path) -> None:
    """Merge the issues as they are: dlt makes columns of the objects in them and child tables of the lists.

    After https://dlthub.com/docs/tutorial/load-data-from-an-api: RESTClient, `incremental`, merge by primary key.
    """
    _dlt(api, folder, lambda issues: issues)


def dlt_flat(api: str, folder: Path) -> None:
    """Merge documents of our columns, made by a plain mapping before dlt sees them: nothing is left to be unnested."""
    _dlt(api, folder, lambda issues: [document(issue) for issue in issues])


def _dlt(api: str, folder: Path, prepare: Callable[[list[Any]], Iterable[Any]]) -> None:
    dlt, rest_client = dlt_imports()
    updated_at = dlt.sources.incremental("updated_at", initial_value="2000-01-01T00:00:00Z")

    def issues(updated_at: Any = updated_at) -> Iterator[Any]:  # noqa: ANN401 -- dlt injects its own object
        client = rest_client.RESTClient(base_url=api, paginator=rest_client.paginators.HeaderLinkPaginator())
        for page in client.paginate(LISTING, params={**QUERY, "since": updated_at.last_value}):
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
        report(client.execute_sql("SELECT count(DISTINCT id) FROM issues")[0][0])


def dlt_imports() -> tuple[Any, Any]:
    """Import what a dlt pipeline into DuckDB needs; it shall measure itself to nobody, and be quiet about null columns.

    https://dlthub.com/docs/reference/telemetry
    """
    os.environ |= {"RUNTIME__DLTHUB_TELEMETRY": "false", "RUNTIME__LOG_LEVEL": "ERROR"}
    import dlt  # type: ignore[import-not-found]  # noqa: PLC0415 -- see the module's docstring, for both
    import duckdb  # noqa: F401, PLC0415 -- dlt imports it when it loads
    from dlt.sources.helpers import rest_client  # type: ignore[import-not-found]  # noqa: PLC0415 -- as above

    return dlt, rest_client


PROGRAMS: dict[str, Callable[[str, Path], None]] = {
    "dlt-nested": dlt_nested,
    "dlt-flat": dlt_flat,
    "sqlite-json": sqlite_peers.json_columns,
    "sqlite-searched": sqlite_peers.searched,
    "sqlite-extracted": sqlite_peers.extracted,
    "sqlite-same-work": sqlite_peers.same_work,
}
IMPORTS: dict[str, Callable[[], object]] = {"dlt-imports": dlt_imports, "sqlite-imports": sqlite_peers.imports}


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
