"""Pages in, durable batches out: how a scope's log grows, and how its cursor moves with it (laws 3 and 4)."""

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ingestion.errors import ConnectorError
from ingestion.model import Account, Batch, BatchKind, CensusSummary, Page, Verdict
from resources import batches
from resources.rawlog import ScopeLog

BATCH_RECORDS = 5_000
BATCH_BYTES = 8_000_000
BATCH_SECONDS = 30.0
_LOOK_BACK = 4
"""A sync ends with at most a batch of records, an empty one and a census; beyond that, the search is not worth it."""


def utc_now() -> datetime:
    """Give the present instant, aware."""
    return datetime.now(UTC)


@dataclass(slots=True)
class Appender:
    """The one writer of one scope's log, for the length of one fetch."""

    log: ScopeLog
    connector: str
    connector_version: int
    account: Account
    newest: Batch | None
    """The newest batch of the log: before the fetch when given, then each that is written."""
    clock: Callable[[], datetime] = utc_now
    cursor: str | None = field(default=None, init=False)
    """Where the next fetch continues, once everything given so far is durable."""
    records_count: int = field(default=0, init=False)
    """Records that came, whether they were new or not."""
    batches_count: int = field(default=0, init=False)
    _rows: list[dict[str, Any]] = field(default_factory=list)
    _bytes: int = 0
    _started: float = field(default_factory=time.monotonic)
    _page: tuple[str | None, dict[str, str]] | None = None
    _recent: dict[str, str] | None = None
    """The hash of each record in the last records and in the rows to come: what comes again unchanged is left out."""

    def __post_init__(self) -> None:
        """Go on from the newest batch."""
        self.cursor = self.newest.cursor if self.newest else None

    def _last_hashes(self, batch: Batch | None) -> dict[str, str]:
        """Give the hash of each record of the last batch that has records, but for those that a later census judged.

        Older batches say nothing: their records may have been replaced since.
        """
        judged: set[str | None] = set()
        for _ in range(_LOOK_BACK):
            if batch is None or batch.connector_version != self.connector_version:
                break
            if batch.records_count:
                rows = self.log.read(batch, ["source_id", "record_hash"]).to_pydict()
                hashes = zip(rows["source_id"], rows["record_hash"], strict=True)
                return {source_id: record_hash for source_id, record_hash in hashes if source_id not in judged}
            if batch.kind == "census":
                judged.update(self.log.read(batch, ["source_id"])["source_id"].to_pylist())
            batch = self.log.batch(batch.sequence - 1)
        return {}

    def append(self, pages: Iterable[Page], *, max_pages: int | None = None) -> bool:
        """Store pages until they end or the budget is spent; tell whether the scope is caught up.

        Whatever ends this early (an error upstream, Ctrl-C) is raised on, after every page that came is durable.

        Raises:
            ConnectorError: the connector gave the same page twice in a row; it would do so for ever.
        """
        self._page = None  # what another call gave says nothing of this one
        try:
            for count, page in enumerate(pages, start=1):
                self._take(page)
                if max_pages is not None and count >= max_pages:
                    self._flush(is_caught_up=False)
                    return False
        except BaseException:
            self._flush(is_caught_up=False, is_cut_short=True)
            raise
        self._flush(is_caught_up=True)
        return True

    def wait_until(self, resumes_at: datetime) -> None:
        """Make durable that the upstream asked us to come back later, so that the next sync does not knock before."""
        self._flush(is_caught_up=False, resumes_at=resumes_at, is_cut_short=True)

    def append_census(self, verdicts: list[tuple[str, Verdict]], summary: CensusSummary) -> None:
        """Store what a census decided; one that says nothing new leaves no batch, often all that a sync would write."""
        if summary == self.census and all(verdict == "held" for _, verdict in verdicts):
            return
        rows = [{"source_id": source_id, "verdict": verdict} for source_id, verdict in verdicts]
        self._write("census", rows, is_caught_up=True, census=summary)

    @property
    def census(self) -> CensusSummary | None:
        """What the newest census of the log decided."""
        batch = self._census_batch()
        return batch.census if batch else None

    def missed(self, verdicts: Collection[Verdict]) -> set[str]:
        """Give the ids that the newest census missed, and of which it said one of these."""
        batch = self._census_batch()
        if batch is None:
            return set()
        rows = self.log.read(batch).to_pydict()
        pairs = zip(rows["source_id"], rows["verdict"], strict=True)
        return {source_id for source_id, verdict in pairs if verdict in verdicts}

    def _census_batch(self) -> Batch | None:
        sequence = self.newest and self.newest.census_sequence
        return self.log.batch(sequence) if sequence else None

    def _take(self, page: Page) -> None:
        """Add what is new of a page to the rows to come, and write them when they are enough."""
        rows = batches.record_rows(page.records, self.clock())
        hashes = {row["source_id"]: row["record_hash"] for row in rows}
        if hashes and (page.cursor, hashes) == self._page:
            raise ConnectorError(f"{self.connector} gave one page twice with one cursor: it would never end")
        self._page = (page.cursor, hashes)
        if self._recent is None:  # most syncs bring nothing, and need not read this
            self._recent = self._last_hashes(self.newest)
        for row in rows:
            if self._recent.get(row["source_id"]) != row["record_hash"]:
                self._recent[row["source_id"]] = row["record_hash"]
                self._rows.append(row)
                self._bytes += len(row["payload"])
        self.records_count += len(rows)
        self.cursor = page.cursor
        is_due = time.monotonic() - self._started >= BATCH_SECONDS
        if len(self._rows) >= BATCH_RECORDS or self._bytes >= BATCH_BYTES or (is_due and self._rows):
            self._write("records", self._rows, is_caught_up=False)

    def _flush(self, *, is_caught_up: bool, resumes_at: datetime | None = None, is_cut_short: bool = False) -> None:
        """Write what is not yet durable: rows, a moved cursor, or news about being caught up or having to wait."""
        newest = self.newest
        has_news = self.cursor != (newest and newest.cursor) or resumes_at != (newest and newest.resumes_at)
        if not is_cut_short:
            has_news = has_news or is_caught_up != (newest and newest.is_caught_up)
        if self._rows or has_news:
            self._write("records", self._rows, is_caught_up=is_caught_up, resumes_at=resumes_at)

    def _write(
        self,
        kind: BatchKind,
        rows: list[dict[str, Any]],
        *,
        is_caught_up: bool,
        resumes_at: datetime | None = None,
        census: CensusSummary | None = None,
    ) -> None:
        sequence = self.newest.sequence + 1 if self.newest else 1
        before = self.newest.census_sequence if self.newest else None
        batch = Batch(
            source=self.log.source,
            scope=self.log.scope,
            sequence=sequence,
            kind=kind,
            path=self.log.path(sequence, kind),
            connector=self.connector,
            connector_version=self.connector_version,
            written_at=self.clock(),
            since=self.newest.cursor if self.newest else None,
            cursor=self.cursor,
            is_caught_up=is_caught_up,
            resumes_at=resumes_at,
            records_count=len(rows) if kind == "records" else 0,
            account=self.account.name,
            scope_id=self.account.scope_id,
            census_sequence=sequence if census else before,
            census=census,
        )
        self.log.write(batch, rows)
        self.newest = batch
        self.batches_count += 1
        if batch.records_count:
            self._recent = {row["source_id"]: row["record_hash"] for row in rows}
        self._rows, self._bytes, self._started = [], 0, time.monotonic()
