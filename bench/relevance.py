"""Known items among Debian's packages: how often, and how high, search() finds them; SQLite FTS5 and tantivy beside it.

`python -m bench.relevance [--queries N] [--seed S]` reads what `apt-cache dumpavail` knows of every package (its name
is a title; short line, long text where there is one, section and homepage are a content), and some thousand files of
the installed documentation and manual pages. From each of N packages it makes three queries: the words of its short
line that say something, one dropped and another inflected; two or three of these words; and the line as it is. The
package is what should be found.

Packages with the very same short line are one item: any of them is a hit. Documents with the very same content count
once in a ranking, as search() has it by default; the rankings of the others are collapsed alike. MRR@10 is the mean of
1 / rank, 0 below the tenth; recall@10 is the share of queries with a hit among the first ten.
"""

import argparse
import gzip
import json
import random
import re
import shutil
import string
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa

from bench import relevance_peers
from bench.files import DEFAULT_FOLDERS, walk
from bench.measure import ROOT
from ingestion.hashing import text_hash
from resources.lent import lent
from resources.searchindex import index_wave, merge_if_due
from resources.warehouse import Warehouse

_ENVIRONMENT = ROOT / ".venv" / "relevance"
_FILES = 4_000
_FILE_BYTES = 100_000
_WAVE = 5_000
_TOP = 10
_LEAST_WORDS = 4
_STOP_WORDS = frozenset(
    re.findall(
        "[a-z]+",
        "a an and any are as at be been by can do for from has have if in into is it its no not of on or other s so"
        " such than that the their them then there these they this to up via was were which while who will with"
        " without you your",
    )
)
_EDGES = "".join(sign for sign in string.punctuation if sign not in "+#")
_VOWELS = set("aeiouy")
_HISSING = ("ch", "sh", "ss", "x")

Random = random.Random
Ranking = Sequence[int]
"""Numbers of documents, the best first."""


@dataclass(frozen=True, slots=True)
class Document:
    """A package or a file."""

    title: str
    content: str
    summary: str = ""
    """The short line of a package's description."""


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked, and what should be found."""

    words: Sequence[str]
    answers: frozenset[int]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=2_000, help="packages that are asked for")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if shutil.which("apt-cache") is None:
        sys.exit("bench.relevance: apt-cache is not there: this bench needs the package lists of a Debian system")
    documents = list(packages())
    packages_count = len(documents)
    documents += files(DEFAULT_FOLDERS, Random(arguments.seed))
    characters = sum(len(document.title) + len(document.content) for document in documents)
    print(f"{packages_count:,} packages and {len(documents) - packages_count:,} files, {characters / 1e6:,.0f} MB\n")
    sets = query_sets(documents, arguments.queries, Random(arguments.seed))
    queries = [query for queries in sets.values() for query in queries]
    rankings = {"search()": ours(documents, queries), **peers(documents, queries)}
    table(sets, {engine: [collapsed(ranking, documents) for ranking in rankings[engine]] for engine in rankings})


def packages() -> Iterator[Document]:
    """Give every package that apt knows, once."""
    dumped = subprocess.run(["apt-cache", "dumpavail"], check=True, capture_output=True)  # noqa: S607 -- wherever it is
    seen: set[str] = set()
    for record in dumped.stdout.decode("utf-8", "replace").split("\n\n"):
        fields = _fields(record)
        name = fields.get("Package")
        if name is None or name in seen:
            continue
        seen.add(name)
        summary, _, text = fields.get("Description-en", fields.get("Description", "")).partition("\n")
        paragraphs = "\n".join("" if line.strip() == "." else line.strip() for line in text.splitlines())
        parts = (summary, paragraphs, fields.get("Section", ""), fields.get("Homepage", ""))
        yield Document(name, "\n\n".join(part for part in parts if part), summary)


def _fields(record: str) -> dict[str, str]:
    """Read a record of Debian's control files: a line that begins with a blank goes on with the one before."""
    fields: dict[str, str] = {}
    name = ""
    for line in record.splitlines():
        if line.startswith((" ", "\t")):
            fields[name] += "\n" + line
        else:
            name, _, value = line.partition(":")
            fields[name] = value.strip()
    return fields


def files(folders: Iterable[Path], choice: Random) -> list[Document]:
    """Choose files of text, not too long, from the installed documentation."""
    found = [(folder, path) for folder in folders for path in walk(folder) if not path.name.endswith((".html", ".htm"))]
    choice.shuffle(found)
    documents: list[Document] = []
    for folder, path in found:
        text = _text(path)
        if text is not None:
            documents.append(Document(str(path.relative_to(folder)).removesuffix(".gz"), text))
        if len(documents) == _FILES:
            break
    return documents


def _text(path: Path) -> str | None:
    """Read a file, decompressed; give nothing where it is no text, empty, or too long."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        content = file.read(_FILE_BYTES + 1)
    if not 0 < len(content) <= _FILE_BYTES or b"\0" in content:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def query_sets(documents: Sequence[Document], count: int, choice: Random) -> dict[str, list[Query]]:
    """Derive the queries of so many items, each a short line that enough words can be taken from."""
    items: dict[str, list[int]] = defaultdict(list)
    for number, document in enumerate(documents):
        if document.summary:
            items[document.summary].append(number)
    eligible = [
        (words(summary), content, frozenset(numbers))
        for summary, numbers in items.items()
        if len(content := content_words(summary, documents[numbers[0]].title)) >= _LEAST_WORDS
    ]
    chosen = choice.sample(eligible, min(count, len(eligible)))
    return {
        "one dropped, one inflected": [Query(altered(content, choice), numbers) for _, content, numbers in chosen],
        "two or three words": [Query(few(content, choice), numbers) for _, content, numbers in chosen],
        "verbatim": [Query(whole, numbers) for whole, _, numbers in chosen],
    }


def words(text: str) -> list[str]:
    """Cut at blanks, take off punctuation, in lower case."""
    stripped = (run.strip(_EDGES).lower() for run in text.split())
    return [word for word in stripped if word]


def content_words(summary: str, name: str) -> list[str]:
    """Give the words that say something and are not the name itself."""
    return [word for word in words(summary) if word not in _STOP_WORDS and word != name]


def altered(content: Sequence[str], choice: Random) -> list[str]:
    """Drop one word, and inflect another where one can be inflected."""
    dropped = choice.randrange(len(content))
    rest = [word for place, word in enumerate(content) if place != dropped]
    english = [place for place, word in enumerate(rest) if word.isascii() and word.isalpha() and len(word) > 2]  # noqa: PLR2004
    if english:
        place = choice.choice(english)
        rest[place] = inflected(rest[place], choice)
    return rest


def few(content: Sequence[str], choice: Random) -> list[str]:
    """Take two or three words, in their order."""
    places = sorted(choice.sample(range(len(content)), choice.choice((2, 3))))
    return [content[place] for place in places]


def inflected(word: str, choice: Random) -> str:
    """Give another form of an English word, by rules that know no exceptions: an ending off, on, or for another."""
    for ending, other in (("ing", "ed"), ("ed", "ing")):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) > 2 and _VOWELS & set(stem) and not word.endswith("eed"):  # noqa: PLR2004
            return choice.choice((stem + other, _without_ending(stem)))
    if word.endswith("s") and not word.endswith(("ss", "is", "us")):
        return _singular(word)
    ending = choice.choice(("s", "ed", "ing"))
    if word[-1] == "y" and word[-2] not in _VOWELS and ending != "ing":
        return f"{word[:-1]}i{'es' if ending == 's' else ending}"
    if ending == "s":
        return word + ("es" if word.endswith(_HISSING) else "s")
    return word.removesuffix("e") + ending


def _singular(word: str) -> str:
    if word.endswith("ies"):
        return word[:-3] + "y"
    stem = word.removesuffix("es")
    return stem if stem != word and stem.endswith(_HISSING) else word[:-1]


def _without_ending(stem: str) -> str:
    """Undo what -ed and -ing do to a word: mapp(ing) is of map, packag(ed) of package."""
    if stem[-1] == stem[-2] and stem[-1] not in "aeiouls":
        return stem[:-1]
    is_cut = stem.endswith(("at", "bl", "iz", "c", "u", "v")) or (stem[-1] in "gs" and stem[-2] not in "ns")
    return stem + "e" if is_cut else stem


def ours(documents: Sequence[Document], queries: Sequence[Query]) -> list[Ranking]:
    """Load a warehouse as the pipeline does, and ask it as an analyst does."""
    with tempfile.TemporaryDirectory(prefix="tributary-relevance-") as folder:
        warehouse = Warehouse(data=folder)
        with warehouse.connect(is_generous=True) as connection:
            for first in range(0, len(documents), _WAVE):
                _load(connection, first, documents[first : first + _WAVE])
            merge_if_due(connection)
        with duckdb.connect(str(warehouse.path), read_only=True) as connection:
            found = "SELECT doc_id FROM search($query, top_k := $top_k)"
            return [
                [
                    int(doc_id)
                    for (doc_id,) in connection.execute(found, {"query": " ".join(q.words), "top_k": _TOP}).fetchall()
                ]
                for q in queries
            ]


def _load(connection: duckdb.DuckDBPyConnection, first: int, documents: Sequence[Document]) -> None:
    """Put documents in and index them, in one transaction, as `load_documents` has it."""
    numbers = range(first, first + len(documents))
    arrived = pa.table(
        {
            "docid": pa.array(numbers, pa.int32()),
            "doc_id": [str(number) for number in numbers],
            "title": [document.title for document in documents],
            "content": [document.content for document in documents],
            "text_hash": [text_hash(document.title, document.content) for document in documents],
            "valid_from": [datetime.now(UTC)] * len(documents),
        }
    )
    connection.begin()
    with lent(connection, arrived=arrived):
        connection.execute("INSERT INTO document_versions BY NAME SELECT * FROM arrived")
        connection.execute("CREATE OR REPLACE TEMP TABLE texts AS SELECT docid, title, content, text_hash FROM arrived")
    connection.execute("CREATE OR REPLACE TEMP TABLE replaced AS SELECT docid FROM texts WHERE false")
    index_wave(connection)
    connection.commit()
    connection.execute("CHECKPOINT")


def peers(documents: Sequence[Document], queries: Sequence[Query]) -> dict[str, list[Ranking]]:
    """Let the others answer, in an environment of their own."""
    with tempfile.TemporaryDirectory(prefix="tributary-relevance-") as folder:
        with Path(folder, "documents.jsonl").open("w", encoding="utf-8") as lines:
            for document in documents:
                json.dump({"title": document.title, "content": document.content}, lines)
                lines.write("\n")
        Path(folder, "queries.json").write_text(json.dumps([query.words for query in queries]), encoding="utf-8")
        command = [str(_environment()), "-m", "bench.relevance_peers", folder]
        subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603 -- our own command
        return {name: json.loads(Path(folder, f"{name}.json").read_text()) for name in relevance_peers.ENGINES}


def _environment() -> Path:
    """Give the interpreter that has tantivy; the environment is made when it is not there yet."""
    python = _ENVIRONMENT / "bin" / "python"
    installed = _ENVIRONMENT / "installed.json"
    wanted = json.dumps(relevance_peers.REQUIREMENTS)
    if not installed.exists() or installed.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", str(_ENVIRONMENT)], check=True)  # noqa: S603 -- our own command
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *relevance_peers.REQUIREMENTS], check=True)  # noqa: S603 -- as above
        installed.write_text(wanted)
    return python


def collapsed(ranking: Ranking, documents: Sequence[Document]) -> Ranking:
    """Leave out what has the content of something higher; give the first ten."""
    first_of: dict[str, int] = {}
    for number in ranking:
        first_of.setdefault(documents[number].content, number)
    return list(first_of.values())[:_TOP]


def table(sets: Mapping[str, Sequence[Query]], rankings: Mapping[str, Sequence[Ranking]]) -> None:
    """Print a row for each engine and set of queries."""
    print("| query | count | engine | MRR@10 | recall@10 |")
    print("|---|---:|---|---:|---:|")
    first = 0
    for name, queries in sets.items():
        for engine, found in rankings.items():
            places = [place(query, ranking) for query, ranking in zip(queries, found[first:], strict=False)]
            mean = sum(1 / rank for rank in places if rank) / len(queries)
            share = sum(rank > 0 for rank in places) / len(queries)
            print(f"| {name} | {len(queries):,} | {engine} | {mean:.4f} | {share:.4f} |")
        first += len(queries)


def place(query: Query, ranking: Ranking) -> int:
    """Give the rank of the first right answer, 0 where there is none."""
    return next((rank for rank, number in enumerate(ranking, start=1) if number in query.answers), 0)


if __name__ == "__main__":
    main()
