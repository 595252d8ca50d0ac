"""The columns of Tributary: the only list of them, each with the description that analysts see in DuckDB.

Arrow schemas, DuckDB tables, column comments and the pandera model are all made from these tuples.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

INSTANT = pa.timestamp("us", tz="UTC")
_TEXTS = pa.list_(pa.string())
_OFFSETS = pa.list_(pa.int32())
_LINKS = pa.list_(pa.struct([("relation", pa.string()), ("target", pa.string())]))
_ATTACHMENTS = pa.list_(
    pa.struct(
        [
            ("name", pa.string()),
            ("media_type", pa.string()),
            ("url", pa.string()),
            ("size_bytes", pa.int64()),
            ("sha256", pa.string()),
        ]
    )
)


class Column(NamedTuple):
    """One column: its name, its Arrow type and what it means."""

    name: str
    type: pa.DataType
    description: str


RAW = (
    Column("source_id", pa.string(), "The record's id within its scope."),
    Column("record_type", pa.string(), "What the upstream calls the record."),
    Column("media_type", pa.string(), "How to read the payload."),
    Column("payload", pa.binary(), "The original bytes, never re-encoded."),
    Column("attributes", pa.string(), "JSON object of facts that came beside the payload."),
    Column("updated_at", INSTANT, "When the upstream says that the record last changed."),
    Column("fetched_at", INSTANT, "When we received it."),
    Column("record_hash", pa.string(), "sha256 of all of the above but fetched_at: equal means that nothing came."),
)
"""A records batch of the raw log."""

CENSUS = (
    Column("source_id", pa.string(), "The id that the census has something to say about."),
    Column("verdict", pa.string(), "gone, suspected, held or back."),
)
"""A census batch of the raw log: only the ids that are not simply live and known."""

VERDICT = (
    Column("source", pa.string(), "The configured upstream."),
    Column("scope", pa.string(), "The scope that was enumerated."),
    *CENSUS,
    Column("batch_id", pa.string(), "The census batch."),
    Column("written_at", INSTANT, "When the census was decided."),
)
"""The verdicts of several censuses, on their way into the warehouse."""

DOCUMENT = (
    Column("doc_id", pa.string(), "The document's id: source:scope:source_id."),
    Column("source", pa.string(), "The configured upstream, as named in sources.yaml."),
    Column("scope", pa.string(), "The repository, project, mailbox or folder that it lives in."),
    Column("source_id", pa.string(), "The document's id within its scope."),
    Column("record_id", pa.string(), "The source_id of the upstream record that owns the document."),
    Column("doc_type", pa.string(), "issue, comment, pull_request, message, email, page, note, file, event, ..."),
    Column("title", pa.string(), "One line that names the document."),
    Column("content", pa.string(), "The whole text."),
    Column("author", pa.string(), "Who wrote it, as the upstream names them."),
    Column("assignees", _TEXTS, "Who is to act on it."),
    Column("participants", _TEXTS, "Everybody involved, normalized (lower-case addresses, account names)."),
    Column("participants_raw", _TEXTS, "Everybody involved, as written."),
    Column("tags", _TEXTS, "Lower-case tags, mostly prefix:value: status:open, label:bug, tracker:, priority:."),
    Column("channel", pa.string(), "The channel, folder or list within the scope."),
    Column("thread_id", pa.string(), "The conversation that it belongs to, within the scope."),
    Column("url", pa.string(), "The canonical address: what an answer cites."),
    Column("created_at", INSTANT, "When it was created upstream (UTC)."),
    Column("updated_at", INSTANT, "When it last changed upstream (UTC)."),
    Column("metadata", pa.string(), "JSON object of stable facts that have no column."),
    Column("attachments", _ATTACHMENTS, "Files that belong to it; sha256 names the file under attachments/."),
    Column("links", _LINKS, "Relations to other documents (a doc_id where known) or addresses."),
    Column("chunk_starts", _OFFSETS, "Where the passages of the content begin, in characters; see the view chunks."),
    Column("content_hash", pa.string(), "sha256 over all that has meaning; a new value is a new version."),
    Column(
        "text_hash",
        pa.string(),
        "sha256 of the content, or the title where that is empty: equal texts.",
    ),
)
"""What normalize gives and validate checks."""

VERSION = (
    *DOCUMENT,
    Column("valid_from", INSTANT, "When we first saw the document in this form."),
    Column("valid_to", INSTANT, "When the next form replaced it; empty for the current one."),
    Column("deleted_at", INSTANT, "When we learned that it is gone upstream; empty while it is live."),
    Column("deletion_reason", pa.string(), "census (its record is gone) or record (its record came without it)."),
    Column("batch_id", pa.string(), "The raw batch that brought this form: source:scope:sequence."),
    Column("docid", pa.int32(), "The number of its text (title and content) in the search index; never used again."),
)
"""The table document_versions: every form of every document, the current one with an empty valid_to."""

RECORD = (
    Column("source", pa.string(), "The configured upstream."),
    Column("scope", pa.string(), "The scope that it lives in."),
    Column("source_id", pa.string(), "The record's id within its scope."),
    Column("record_hash", pa.string(), "Hash of the form that was last mapped; empty while it is (partly) rejected."),
    Column("connector_version", pa.int64(), "Version of the mapping that was last applied."),
    Column("batch_id", pa.string(), "The batch that brought this form."),
    Column("deleted_at", INSTANT, "When a census found it gone; empty while it is live."),
)
"""The table records: one row per upstream record ever seen."""

REJECT = (
    Column("source", pa.string(), "The configured upstream."),
    Column("scope", pa.string(), "The scope that it lives in."),
    Column("source_id", pa.string(), "The record's id within its scope."),
    Column("batch_id", pa.string(), "The batch that brought the refused form."),
    Column("reason", pa.string(), "Why it was refused: the error of the mapping, or the checks that failed."),
    Column("payload", pa.binary(), "The original bytes."),
    Column("first_seen_at", INSTANT, "When a refused form of it first came."),
    Column("last_seen_at", INSTANT, "When the present refused form came."),
)
"""The table rejects: records that are refused now; a row leaves when its record passes or is gone."""

LOADED_BATCH = (
    Column("batch_id", pa.string(), "source:scope:sequence."),
    Column("source", pa.string(), "The configured upstream."),
    Column("scope", pa.string(), "The scope that was fetched."),
    Column("sequence", pa.int64(), "1, 2, 3, ... within the scope."),
    Column("kind", pa.string(), "records or census."),
    Column("connector", pa.string(), "The connector that read it."),
    Column("written_at", INSTANT, "When the batch became durable in the raw log."),
    Column("cursor", pa.string(), "Where the next fetch continues, opaque."),
    Column("is_caught_up", pa.bool_(), "Nothing more was to be had when the batch was written."),
    Column("resumes_at", INSTANT, "When a rate limit said to come back, if one did."),
    Column("account", pa.string(), "Who we were upstream."),
    Column("records_count", pa.int64(), "Records in the batch."),
    Column("created_count", pa.int64(), "Documents that are new with it."),
    Column("updated_count", pa.int64(), "Documents with a new form, or back from a tombstone."),
    Column("tombstoned_count", pa.int64(), "Documents tombstoned by it."),
    Column("rejected_count", pa.int64(), "Records refused in it."),
    Column("live_count", pa.int64(), "Ids the upstream has, by this census."),
    Column("missing_count", pa.int64(), "Known ids that this census did not find."),
    Column("is_held", pa.bool_(), "The census was held back: nothing was tombstoned."),
    Column("census_reason", pa.string(), "What was decided about the census, in words."),
)
"""The table loaded_batches: what of the raw log is in the warehouse, and what it did."""

TABLES: dict[str, tuple[str, Sequence[Column]]] = {
    "document_versions": ("Every form of every document; current forms have an empty valid_to.", VERSION),
    "records": ("One row per upstream record ever seen.", RECORD),
    "rejects": ("Records that are refused now, with the reason and their bytes.", REJECT),
    "loaded_batches": ("The batches of the raw log that are loaded, and what each did.", LOADED_BATCH),
}


def arrow(columns: Sequence[Column]) -> pa.Schema:
    """Give the Arrow schema of some columns."""
    return pa.schema([(column.name, column.type) for column in columns])


VIEW_COLUMNS = {
    "is_deleted": "Gone upstream, kept here.",
    "changed_at": "When we first saw the present form.",
    "name": "The file's name.",
    "media_type": "The file's media type.",
    "size_bytes": "The file's size, empty where it was not fetched.",
    "sha256": "Names the file under attachments/, empty where it was not fetched.",
    "relation": "mentions, blocks, duplicates, parent, closes, moved_to, ...",
    "target": "A doc_id where the target is known to be a document, otherwise an address or the text as written.",
    "doc_ids": "The documents, in order.",
    "documents_count": "How many documents.",
    "tombstoned_count": "Documents that are gone upstream.",
    "rejected_count": "Records that are refused now.",
    "live_records_count": "Upstream records that we hold as live: equals upstream_count when nothing is lost.",
    "upstream_count": "Ids the upstream had at the last recorded census; empty where it cannot enumerate.",
    "is_census_held": "The brake is on: ids are missing, nothing is tombstoned until it is approved.",
    "last_batch_at": "When the newest batch was written; a sync that finds nothing new writes none.",
    "last_census_at": "When the newest census was recorded; one that says nothing new is not.",
    "newest_document_at": "The newest updated_at of the scope's documents.",
    "batches_count": "Batches of the raw log.",
    "format_version": "The form of this file.",
    "chunk": "The number of the passage within the document: 1, 2, 3, ...",
    "chunk_start": "Where the passage begins in the content, in characters from 0.",
    "chunk_end": "Where it ends.",
    "text": "The passage.",
    "definition_hash": "Names the form of the views, macros and descriptions.",
    "warehouse.created_at": "When this file was made.",
    "attachments.url": "Where the file is upstream.",
    "sync_status.live_count": "Documents that are live.",
}
"""Descriptions of the columns that only views have, and of those that mean something else in one of them."""
