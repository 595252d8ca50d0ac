"""One scope, fetched: what changed, then (where asked) the census, into the raw log."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from ingestion.census import Finding, held_because
from ingestion.errors import ConfigurationError, TransientError
from ingestion.model import ANONYMOUS, Account, Batch, CensusSummary, Page, Record, Verdict
from resources.append import Appender, utc_now
from resources.connector import Connector, SupportsCensus, SupportsGet
from resources.counting import counting_requests
from resources.known import Comparison, Known
from resources.rawlog import ScopeLog

_HEAL_PAGE = 200


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """What one fetch is asked to do."""

    take_census: bool = False
    max_pages: int | None = None
    """Stop after so many pages; the next fetch continues."""
    approve_deletions: bool = False
    """Let pass what the brake would hold."""
    brake_ids: int = 20
    brake_share: float = 0.1


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one fetch of a scope did."""

    records_count: int
    batches_count: int
    cursor: str | None
    is_caught_up: bool
    resumes_at: datetime | None
    requests_count: int
    seconds: float
    census: CensusSummary | None
    account: Account | None
    """Who we were, None where nobody was asked."""


@dataclass(frozen=True, slots=True)
class ScopeFetch:
    """The fetch of one scope; whoever runs it holds the source's lock."""

    connector: Connector
    kind: str
    log: ScopeLog
    known: Known
    options: FetchOptions = FetchOptions()
    clock: Callable[[], datetime] = utc_now

    def run(self) -> Fetched:
        """Bring the log of the scope up to date.

        Returns also when a rate limit ended the fetch and said when to come back: `resumes_at` is set then.

        Raises:
            TributaryError: the fetch failed; every page that came before is durable.
        """
        started = time.monotonic()
        newest = self.log.last(self.known.sequence(self.log))
        if newest and newest.has_to_wait(self.clock()):
            return _nothing(newest.cursor, newest.resumes_at)  # knock not before
        with counting_requests() as requests:
            try:
                account = self._account(newest)
            except TransientError as error:
                if error.resumes_at is None:
                    raise
                return self._told_to_wait(newest, error.resumes_at, requests[0])
            appender = Appender(self.log, self.kind, self.connector.version, account, newest, self.clock)
            is_caught_up, resumes_at, census = False, None, None
            try:
                pages = self.connector.pages(self.log.scope, appender.cursor)
                is_caught_up = appender.append(pages, max_pages=self.options.max_pages)
                census = self._take_census(appender) if is_caught_up and self._wants_census() else None
            except TransientError as error:
                if error.resumes_at is None:
                    raise
                is_caught_up, resumes_at = False, error.resumes_at
                appender.wait_until(resumes_at)
        return Fetched(
            records_count=appender.records_count,
            batches_count=appender.batches_count,
            cursor=appender.cursor,
            is_caught_up=is_caught_up,
            resumes_at=resumes_at,
            requests_count=requests[0],
            seconds=time.monotonic() - started,
            census=census,
            account=account,
        )

    def _account(self, newest: Batch | None) -> Account:
        """Prove who we are, and that the scope is the one that was fetched before.

        Raises:
            ConfigurationError: nobody, where an account fetched before: an upstream that answers a bad token as it
                answers strangers would move the cursor past all that strangers do not see. Or the scope's name
                belongs to another one by now.
        """
        account = self.connector.check(self.log.scope)
        if newest and newest.scope_id not in {"", account.scope_id}:
            raise ConfigurationError(
                f"{self.log.scope} is another one by now: upstream it has the id {account.scope_id or 'of none'}, what "
                f"was fetched before has {newest.scope_id}. Nothing was changed. Write the present name of the old one "
                f"as scope; or, to begin anew, move {self.log.folder} away and replay"
            )
        before = newest.account if newest else ANONYMOUS
        if account.is_authenticated or before in {ANONYMOUS, account.name} or self.options.approve_deletions:
            return account
        raise ConfigurationError(
            f"answered as {account.name}, while {before} fetched before: is the credential expired or withdrawn? "
            "If it is to be so, sync once with --approve-deletions"
        )

    def _told_to_wait(self, newest: Batch | None, resumes_at: datetime, requests_count: int) -> Fetched:
        """End a fetch before it began; a scope that has a log remembers until when."""
        if newest is not None:
            account = Account(newest.account, newest.account != ANONYMOUS, scope_id=newest.scope_id)
            Appender(self.log, self.kind, newest.connector_version, account, newest, self.clock).wait_until(resumes_at)
        return replace(_nothing(newest.cursor if newest else None, resumes_at), requests_count=requests_count)

    def _wants_census(self) -> bool:
        return self.options.take_census or self.connector.census_every_sync

    def _take_census(self, appender: Appender) -> CensusSummary | None:
        """Compare what exists with what we hold, heal both ways, and write down what was decided.

        Only for a scope that is caught up: others lack ids by intent, and would be fetched past any budget. None where
        the connector cannot enumerate: then nothing is ever tombstoned by absence.
        """
        if not isinstance(self.connector, SupportsCensus):
            return None
        found = self.known.compare(self.log, self.connector.census(self.log.scope))
        trusted = self._fetched_as(appender) if found.missing else appender.account.name
        reason = held_because(
            Finding(found.live_count, found.known_count, len(found.missing), appender.account.name, trusted),
            brake_ids=self.options.brake_ids,
            brake_share=self.options.brake_share,
        )
        is_held = bool(reason) and not self.options.approve_deletions
        verdicts = self._judge(appender, found, is_held=is_held)
        if any(verdict in {"gone", "suspected"} for _, verdict in verdicts):
            account = self.connector.check(self.log.scope)
            begun = appender.account
            if (account.name, account.scope_id) != (begun.name, begun.scope_id):
                is_held = True
                reason = f"begun as {_named(begun)}, ended as {_named(account)}: it may have seen less"
                verdicts = [(source_id, "held") for source_id in found.missing]
        summary = CensusSummary(
            live_count=found.live_count,
            missing_count=len(found.missing),
            gone_count=sum(verdict == "gone" for _, verdict in verdicts),
            is_held=is_held,
            is_approved=bool(reason) and not is_held,
            reason=reason,
            trusted_account=trusted if is_held else appender.account.name,
        )
        appender.append_census(verdicts, summary)
        return summary

    def _fetched_as(self, appender: Appender) -> str:
        """Say who fetched what we hold: if somebody else did since the last census that counts, then they.

        What the anonymous saw, everybody sees.
        """
        newest, census = appender.newest, appender.census
        accounts = self.known.accounts(self.log, since=newest.census_sequence or 0 if newest else 0)
        if census:
            accounts.add(census.trusted_account)
        return min(accounts - {appender.account.name, ANONYMOUS}, default=appender.account.name)

    def _judge(self, appender: Appender, found: Comparison, *, is_held: bool) -> list[tuple[str, Verdict]]:
        """Say what becomes of each id that is missing or back; with `get`, fetch what we lack, confirm what is gone."""
        if isinstance(self.connector, SupportsGet):
            gone = self._heal(self.connector, appender, found, confirm=() if is_held else tuple(found.missing))
            back: list[str] = []
            suspected: list[str] = []
        else:
            # What was held counts as a first census for an operator who approves, and for nobody else.
            earlier = appender.missed({"suspected", "held"} if self.options.approve_deletions else {"suspected"})
            gone = [source_id for source_id in found.missing if source_id in earlier and not is_held]
            suspected = [source_id for source_id in found.missing if source_id not in earlier and not is_held]
            back = found.back
        verdicts: list[tuple[str, Verdict]] = [(source_id, "gone") for source_id in gone]
        verdicts += [(source_id, "suspected") for source_id in suspected]
        verdicts += [(source_id, "back") for source_id in back]
        verdicts += [(source_id, "held") for source_id in found.missing if is_held]
        return verdicts

    def _heal(
        self, connector: SupportsGet, appender: Appender, found: Comparison, confirm: tuple[str, ...]
    ) -> list[str]:
        """Fetch each id that we lack, hold as a tombstone, or miss; give those to be confirmed that are gone."""
        gone: list[str] = []
        asked = set(confirm)

        def existing() -> Iterator[Record]:
            for source_id in (*found.unknown, *found.back, *confirm):
                record = connector.get(self.log.scope, source_id)
                if record is not None:
                    yield record
                elif source_id in asked:
                    gone.append(source_id)

        appender.append(_pages(existing(), appender.cursor))
        return gone


def _named(account: Account) -> str:
    return f"{account.name} at {account.scope_id}" if account.scope_id else account.name


def _nothing(cursor: str | None, resumes_at: datetime | None) -> Fetched:
    """Give the outcome of a fetch that has to wait."""
    return Fetched(
        records_count=0,
        batches_count=0,
        cursor=cursor,
        is_caught_up=False,
        resumes_at=resumes_at,
        requests_count=0,
        seconds=0.0,
        census=None,
        account=None,
    )


def _pages(records: Iterator[Record], cursor: str | None) -> Iterator[Page]:
    """Cut single records into pages that leave the cursor where it is."""
    while chunk := tuple(islice(records, _HEAL_PAGE)):
        yield Page(chunk, cursor)
