"""The full-text index: made once, kept equal to the documents by each load, merged when that pays (law 9).

Its SQL is in `sql/search/`. DuckDB's own index is created on an empty table and never again: its `overwrite=1` and
`drop_fts_index` leave a file that cannot be opened when the process dies before the next checkpoint. Of its tables we
make views over ours, so that `fts_main_documents.match_bm25` gives the scores that `search()` gives.
"""

import logging
from importlib.resources import files
from pathlib import Path

import duckdb
import pyarrow as pa

from resources.lent import lent
from resources.postings import assemble, split
from resources.sql import statement

TOKENIZER_VERSION = 1
"""Raise it when `sql/search/tokenizer.sql` or `index.sql` cut a text otherwise: the index is then filled anew."""
_MERGE_RUNS = 32
"""Each piece is sorted in itself: a query reads a row group of each."""
_MERGE_ROWS = 200_000
_MERGE_SHARE = 0.1
_REFILL_DOCUMENTS = 2_000
_PIECE_BYTES = 2_500_000

_log = logging.getLogger(__name__)


def load_extension(connection: duckdb.DuckDBPyConnection) -> None:
    """Load DuckDB's full-text extension from its wheel, offline. Only whoever writes the index needs it: its stem()."""
    (path,) = Path(str(files("duckdb_extension_fts"))).glob(f"extensions/v{duckdb.__version__}/fts.duckdb_extension")
    connection.load_extension(str(path))


def create(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the empty index in a new file, in which document_versions is there and nobody reads yet."""
    connection.execute("CREATE TABLE documents (doc_id VARCHAR, title VARCHAR, content VARCHAR)")
    connection.execute(
        "PRAGMA create_fts_index('documents', 'doc_id', 'title', 'content', stemmer = 'none', stopwords = 'none')"
    )
    connection.execute("DROP TABLE documents")
    connection.execute(statement("search/tables"))
    connection.execute(statement("search/comments"))
    connection.execute("UPDATE fts.state SET tokenizer_version = $1", [TOKENIZER_VERSION])


def index_wave(connection: duckdb.DuckDBPyConnection) -> None:
    """Index the texts that `load_documents` found to be new, and forget those that they replace.

    Piece by piece: cut into words, a text takes ten times its size.
    """
    pieces = connection.execute(statement("search/pieces"), [_PIECE_BYTES]).fetchall()
    for first, last in pieces:
        _index(connection, connection.execute(statement("search/piece"), [first, last]).to_arrow_table())
    if pieces:
        connection.execute(statement("search/replace"))


def _index(connection: duckdb.DuckDBPyConnection, piece: pa.Table) -> None:
    runs = split(piece)
    with lent(connection, runs=runs.distinct):
        connection.execute(statement("search/terms"))
        words = connection.execute(statement("search/run_words")).to_arrow_table()
    run_terms = connection.execute(statement("search/run_terms")).to_arrow_table()
    postings, lengths = assemble(runs, words, run_terms)
    with lent(connection, piece=piece, new_postings=postings, new_lengths=lengths):
        connection.execute(statement("search/index"))


def refill(connection: duckdb.DuckDBPyConnection) -> None:
    """Fill the index anew where it was cut by another tokenizer: in chunks, and all in one transaction.

    The tables stay, and their numbers go on: nothing is dropped.
    """
    if connection.execute("SELECT tokenizer_version FROM fts.state").fetchone() == (TOKENIZER_VERSION,):
        return
    _log.warning("the search index was made by another version of the tokenizer: filling it anew")
    connection.begin()
    try:
        connection.execute(statement("search/clear"))
        bounds = connection.execute(statement("search/refill_bounds"), [_REFILL_DOCUMENTS]).fetchall()
        for first, last in bounds:
            connection.execute(statement("search/refill_texts"), [first, last])
            index_wave(connection)
        connection.execute("UPDATE fts.state SET tokenizer_version = $1", [TOKENIZER_VERSION])
    except BaseException:
        connection.rollback()
        raise
    connection.commit()
    merge(connection)


def merge_if_due(connection: duckdb.DuckDBPyConnection) -> None:
    """Merge when what was added, or what is dead, has grown so much that queries would feel it."""
    runs, added, total, dead, documents = connection.execute(statement("search/growth")).fetchone() or (0, 0, 0, 0, 1)
    dead_postings = total * dead / max(documents + dead, 1)
    least = max(_MERGE_ROWS, _MERGE_SHARE * total)
    if dead_postings > least or (runs > _MERGE_RUNS and added > least):
        merge(connection)


def merge(connection: duckdb.DuckDBPyConnection) -> None:
    """Leave out what is dead and sort the rest, in a transaction of its own."""
    connection.begin()
    try:
        connection.execute(statement("search/merge"))
        connection.execute(statement("search/comments"))
    except BaseException:
        connection.rollback()
        raise
    connection.commit()
    connection.execute("CHECKPOINT")
