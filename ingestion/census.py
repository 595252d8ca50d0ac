"""What a census may conclude: known ids against live ids, with the brake (law 5).

Absence deletes nothing by itself. A census is held, and nothing of it tombstoned, while it is empty, while it was taken
by somebody who may see less than before, or while more is missing than the brake lets pass; one approval releases it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A complete census beside what we hold."""

    live_count: int
    known_count: int
    """Ids that we hold as live."""
    missing_count: int
    """Known ids that the census did not show."""
    account: str
    """Who took the census."""
    trusted_account: str | None
    """Who took the last one that was not held, or fetched the first records."""


def held_because(finding: Finding, *, brake_ids: int, brake_share: float) -> str:
    """Say why nothing may be tombstoned by this census without approval; empty where it may.

    The brake lets pass the greater of `brake_ids` ids and `brake_share` (0 to 1) of the scope's known ids.
    """
    if finding.missing_count == 0:
        return ""
    if finding.trusted_account not in {None, finding.account}:
        return f"taken as {finding.account}, while {finding.trusted_account} fetched before: it may see less"
    if finding.live_count == 0:
        return f"empty, while {finding.known_count} are known"
    limit = max(brake_ids, int(brake_share * finding.known_count))
    if finding.missing_count > limit:
        return f"{finding.missing_count} of {finding.known_count} are missing, the brake lets {limit} pass"
    return ""
