"""From texts to postings: which token stands where in which text.

What a token is, the SQL in `sql/search/tokenizer.sql` says, of each distinct run of characters once; here the runs are
found and counted. A text has as many rows as words: by columns, Arrow and Polars cut, sort and group them in a third of
the time and of the memory that DuckDB takes for it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import polars as pl

TITLE_WEIGHT = 3
"""How often a word of the title counts."""
_TITLE_PLACES = 10_000
"""Places of a title are counted from minus this, so that no phrase goes over from it to the content."""


@dataclass(frozen=True, slots=True)
class Runs:
    """Texts split at blanks."""

    distinct: pa.Table
    """The runs (`run_id`, `run`), each once; run_id is the row's number."""
    docids: "pa.Array[Any]"
    fields: "pa.Array[Any]"
    """Of each run of all texts, in order: the row of its text, plus the number of texts where it is in the content."""
    run_ids: "pa.Array[Any]"


def split(texts: pa.Table) -> Runs:
    """Split titles and contents (`docid`, `title`, `content`) into runs."""
    columns = [cast("pa.StringArray", texts[name].combine_chunks()) for name in ("title", "content")]
    lists = pc.ascii_split_whitespace(pa.concat_arrays(columns))
    encoded = lists.flatten().dictionary_encode()
    numbers = pa.array(range(len(encoded.dictionary)), pa.int32())
    return Runs(
        distinct=pa.table({"run_id": numbers, "run": encoded.dictionary}),
        docids=texts["docid"].combine_chunks(),
        fields=pc.list_parent_indices(lists),
        run_ids=encoded.indices,
    )


def assemble(runs: Runs, words: pa.Table, run_terms: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Put postings together.

    Args:
        runs: the split texts.
        words: `has_word` of each distinct run in its order: whether it counts as a place.
        run_terms: `run_id` and `termid`, once for each time that the token stands in the run.

    Returns:
        The postings (`termid`, `docid`, `tf`, `title_tf`, `dl`, `positions`), sorted by token and text, and the texts'
        lengths in tokens (`docid`, `dl`). A token in the title counts three times, in `tf` as well as in `dl`.
    """
    import polars as pl  # noqa: PLC0415 -- a sync that brings nothing need not import it

    docids = pl.DataFrame({"docid": pl.from_arrow(runs.docids)})
    tokens = _places(runs, pl.DataFrame(pl.from_arrow(words))["has_word"]).join(
        pl.DataFrame(pl.from_arrow(run_terms)), on="run_id", maintain_order="left"
    )
    # One key to sort by takes a quarter of the time of two.
    key = pl.col("termid").cast(pl.Int64) * 2**32 + pl.col("docid")
    postings = (
        tokens.select("position", key=key)
        .sort("key", maintain_order=True)
        .group_by("key", maintain_order=True)
        .agg(positions="position", title_tf=(pl.col("position") < 0).sum().cast(pl.Int32), count=pl.len())
        .select(
            termid=(pl.col("key") // 2**32).cast(pl.Int32),
            docid=(pl.col("key") % 2**32).cast(pl.Int32),
            tf=(pl.col("count") + (TITLE_WEIGHT - 1) * pl.col("title_tf")).cast(pl.Int32),
            title_tf="title_tf",
            positions="positions",
        )
    )
    lengths = docids.join(postings.group_by("docid").agg(dl=pl.col("tf").sum()), on="docid", how="left")
    lengths = lengths.with_columns(pl.col("dl").fill_null(0))
    return postings.join(lengths, on="docid", maintain_order="left").to_arrow(), lengths.to_arrow()


def _places(runs: Runs, has_word: "pl.Series") -> "pl.DataFrame":
    """Give `run_id`, `docid` and `position` of the runs that count, in order: those of a title first."""
    import polars as pl  # noqa: PLC0415 -- see above

    docids = pl.Series(pl.from_arrow(runs.docids))
    frame = pl.DataFrame({"field": pl.from_arrow(runs.fields), "run_id": pl.from_arrow(runs.run_ids)})
    frame = frame.filter(has_word.gather(frame["run_id"]))
    texts_count = len(docids)
    return frame.select(
        "run_id",
        docid=docids.gather(frame["field"] % texts_count),
        position=pl.int_range(pl.len(), dtype=pl.Int32).over("field")
        + pl.when(pl.col("field") < texts_count).then(-_TITLE_PLACES).otherwise(1),
    )
