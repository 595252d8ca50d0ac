"""SQLite FTS5 and tantivy on the corpus of `bench.relevance`, which runs this module in an environment of their own.

`python -m bench.relevance_peers FOLDER` reads documents.jsonl (`title`, `content`) and queries.json (lists of words) in
FOLDER and writes, for each engine and title weight, NAME.json: the numbers of the documents that it found for each
query, the best first. Both stem English. Each word is quoted, so that no sign in it is syntax; any of them will do.
"""

import json
import sqlite3
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

REQUIREMENTS = ("tantivy==0.27.0",)
ENGINES = tuple(f"{engine}, title x{weight}" for engine in ("SQLite FTS5", "tantivy") for weight in (3, 1))
FOUND = 100
"""Results of a query: more than ten, since the same text may stand there more than once."""
_HEAP_BYTES = 200_000_000

Documents = Iterable[tuple[str, str]]
Queries = Sequence[Sequence[str]]


def sqlite_fts5(documents: Documents, queries: Queries, weight: int) -> list[list[int]]:
    """Rank by FTS5's bm25, words stemmed by Porter's rules."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE documents USING fts5(title, content, tokenize = 'porter unicode61')")
    rows = ((number, title, content) for number, (title, content) in enumerate(documents))
    database.executemany("INSERT INTO documents (rowid, title, content) VALUES (?, ?, ?)", rows)
    ranked = "SELECT rowid FROM documents WHERE documents MATCH ? ORDER BY bm25(documents, ?, 1), rowid LIMIT ?"
    return [
        [number for (number,) in database.execute(ranked, [" OR ".join(map(_quoted, words)), weight, FOUND])]
        for words in queries
    ]


def tantivy(documents: Documents, queries: Queries, weight: int) -> list[list[int]]:
    """Rank as tantivy does by default: BM25 in each field, words stemmed by its English stemmer."""
    engine = _import_tantivy()
    builder = engine.SchemaBuilder()
    builder.add_unsigned_field("number", stored=True)
    for field in ("title", "content"):
        builder.add_text_field(field, tokenizer_name="en_stem")
    index = engine.Index(builder.build())
    writer = index.writer(_HEAP_BYTES, num_threads=1)
    for number, (title, content) in enumerate(documents):
        writer.add_document(engine.Document(number=number, title=title, content=content))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def found(words: Sequence[str]) -> list[int]:
        text = " ".join(map(_quoted, words))
        query = index.parse_query(text, ["title", "content"], field_boosts={"title": float(weight)})
        return [searcher.doc(address)["number"][0] for _, address in searcher.search(query, limit=FOUND).hits]

    return [found(words) for words in queries]


def _import_tantivy() -> Any:  # noqa: ANN401 -- it is not installed where this is checked
    import tantivy as engine  # type: ignore[import-not-found]  # noqa: PLC0415 -- see the module's docstring

    return engine


def _quoted(word: str) -> str:
    return '"' + word.replace("\\", " ").replace('"', " ") + '"'


def _documents(path: Path) -> Documents:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            document = json.loads(line)
            yield document["title"], document["content"]


def main() -> None:
    """Run every engine."""
    folder = Path(sys.argv[1])
    queries = json.loads((folder / "queries.json").read_text(encoding="utf-8"))
    for name in ENGINES:
        engine, weight = name.rsplit(", title x", 1)
        rank = sqlite_fts5 if engine.startswith("SQLite") else tantivy
        answers = rank(_documents(folder / "documents.jsonl"), queries, int(weight))
        (folder / f"{name}.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main()
