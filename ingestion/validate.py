"""The checks that every document passes before it is loaded; what fails is a reject with the check's name."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ingestion import schema

if TYPE_CHECKING:
    import polars as pl
    from pandera.polars import DataFrameSchema

    Passes = Callable[[pl.Expr], pl.Expr]

_EARLIEST, _LATEST = 1900, 2200


def failures(documents: pa.Table) -> Mapping[int, str]:
    """Check document rows (`schema.DOCUMENT`); give, by row number, the checks that the row fails, in one line.

    Polars alone looks first whether all is well, as it nearly always is; pandera is asked which rows are not. Its
    import takes 0.1 to 0.6 s and 50 MB, and each call of it 20 ms, which is more than the rest of the check.
    """
    if documents.num_rows == 0:
        return {}
    import polars as pl  # noqa: PLC0415 -- a sync that brings nothing need not import it

    frame = pl.DataFrame(pl.from_arrow(documents))
    looks = [
        passes(pl.col(column)).all().alias(f"{column} {name}")
        for column, checks in _checks().items()
        for name, passes in checks.items()
    ]
    if all(frame.select(looks).row(0)):
        return {}
    from pandera.errors import SchemaErrors  # noqa: PLC0415 -- see above

    try:
        _model().validate(frame, lazy=True)
    except SchemaErrors as errors:
        return _by_row(errors.failure_cases.rows(named=True))
    raise AssertionError("polars and pandera do not agree on the documents' checks")


def _by_row(cases: list[dict[str, Any]]) -> dict[int, str]:
    reasons: dict[int, list[str]] = {}
    for case in cases:
        if case["index"] is None:  # not about rows but about the table: our own defect, never a record's
            raise AssertionError(f"the documents' schema is broken: {case}")
        reasons.setdefault(case["index"], []).append(f"{case['column']}: {case['check']}")
    return {row: "; ".join(sorted(set(found))) for row, found in reasons.items()}


@cache
def _checks() -> dict[str, dict[str, "Passes"]]:
    """Give the checks of each column by the names that a reject shows; nulls pass them all."""
    import polars as pl  # noqa: PLC0415 -- see `failures`

    def filled(column: pl.Expr) -> pl.Expr:
        return column.str.len_chars() > 0

    def at_most(characters: int) -> dict[str, "Passes"]:
        return {f"at most {characters} characters": lambda column: column.str.len_chars() <= characters}

    def plausible(column: pl.Expr) -> pl.Expr:
        return column.dt.year().is_between(_EARLIEST, _LATEST, "left")

    def each_filled(column: pl.Expr) -> pl.Expr:
        return column.list.eval(filled(pl.element())).list.all()

    def each_lower(column: pl.Expr) -> pl.Expr:
        return column.list.eval(pl.element() == pl.element().str.to_lowercase()).list.all()

    years: dict[str, Passes] = {f"between {_EARLIEST} and {_LATEST}": plausible}
    return {
        "source_id": {"not empty": filled} | at_most(4_000),
        "doc_type": {"a word of a-z and _": lambda column: column.str.contains(r"^[a-z][a-z_]*$")},
        "title": {"not empty": filled} | at_most(10_000),
        "content": at_most(64_000_000),
        "assignees": {"no empty item": each_filled},
        "participants": {"no empty item": each_filled},
        "tags": {"no empty item": each_filled, "lower case": each_lower},
        "url": {"an absolute address": lambda column: column.str.contains(r"^[a-z][a-z0-9+.-]*:\S")} | at_most(8_000),
        "created_at": years,
        "updated_at": years,
    }


@cache
def _model() -> "DataFrameSchema":
    """Build pandera's model of the same checks, once."""
    import pandera.polars as pa_polars  # noqa: PLC0415 -- see `failures`
    import polars as pl  # noqa: PLC0415

    def check(name: str, passes: "Passes") -> pa_polars.Check:
        return pa_polars.Check(lambda data: data.lazyframe.select(passes(pl.col(data.key))), name=name)

    return pa_polars.DataFrameSchema(
        {
            column.name: pa_polars.Column(
                checks=[check(name, passes) for name, passes in _checks().get(column.name, {}).items()],
                nullable=True,
                description=column.description,
            )
            for column in schema.DOCUMENT
        }
    )
