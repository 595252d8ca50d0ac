"""The checks that every document passes before it is loaded; what fails is a reject with the check's name."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ingestion import schema

if TYPE_CHECKING:
    from pandera.polars import DataFrameSchema

_EARLIEST, _LATEST = 1900, 2200


def failures(documents: pa.Table) -> Mapping[int, str]:
    """Check document rows (`schema.DOCUMENT`); give, by row number, the checks that the row fails, in one line.

    pandera is imported here and not above: it takes 0.1 to 0.6 s, which a sync that brings nothing need not pay.
    """
    if documents.num_rows == 0:
        return {}
    import polars as pl  # noqa: PLC0415 -- see the docstring
    from pandera.errors import SchemaErrors  # noqa: PLC0415

    frame = pl.DataFrame(pl.from_arrow(documents))
    try:
        _model().validate(frame, lazy=True)
    except SchemaErrors as errors:
        return _by_row(errors.failure_cases.rows(named=True))
    return {}


def _by_row(cases: list[dict[str, Any]]) -> dict[int, str]:
    reasons: dict[int, list[str]] = {}
    for case in cases:
        if case["index"] is None:  # not about rows but about the table: our own defect, never a record's
            raise AssertionError(f"the documents' schema is broken: {case}")
        reasons.setdefault(case["index"], []).append(f"{case['column']}: {case['check']}")
    return {row: "; ".join(sorted(set(found))) for row, found in reasons.items()}


@cache
def _model() -> "DataFrameSchema":
    """Build the model once: each column with the checks whose names a reject shows."""
    import pandera.polars as pa_polars  # noqa: PLC0415
    import polars as pl  # noqa: PLC0415

    def check(name: str, passes: Callable[[pl.Expr], pl.Expr]) -> pa_polars.Check:
        return pa_polars.Check(lambda data: data.lazyframe.select(passes(pl.col(data.key))), name=name)

    def at_most(characters: int) -> pa_polars.Check:
        return check(f"at most {characters} characters", lambda column: column.str.len_chars() <= characters)

    def items(name: str, passes: Callable[[pl.Expr], pl.Expr]) -> pa_polars.Check:
        return check(name, lambda column: column.list.eval(passes(pl.element())).list.all())

    filled = check("not empty", lambda column: column.str.len_chars() > 0)
    each_filled = items("no empty item", lambda item: item.str.len_chars() > 0)
    lower_case = items("lower case", lambda item: item == item.str.to_lowercase())
    plausible = check(
        f"between {_EARLIEST} and {_LATEST}", lambda column: column.dt.year().is_between(_EARLIEST, _LATEST, "left")
    )
    checks: dict[str, list[pa_polars.Check]] = {
        "source_id": [filled, at_most(4_000)],
        "doc_type": [check("a word of a-z and _", lambda column: column.str.contains(r"^[a-z][a-z_]*$"))],
        "title": [filled, at_most(10_000)],
        "content": [at_most(64_000_000)],
        "assignees": [each_filled],
        "participants": [each_filled],
        "tags": [each_filled, lower_case],
        "url": [
            check("an absolute address", lambda column: column.str.contains(r"^[a-z][a-z0-9+.-]*:\S")),
            at_most(8_000),
        ],
        "created_at": [plausible],
        "updated_at": [plausible],
    }
    return pa_polars.DataFrameSchema(
        {
            column.name: pa_polars.Column(
                checks=checks.get(column.name, []), nullable=True, description=column.description
            )
            for column in schema.DOCUMENT
        }
    )
