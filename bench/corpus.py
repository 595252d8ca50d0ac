"""Made-up documents and questions about them, the same in every run, for engines that are to be compared.

Words are made of syllables (`bak`, `torak`, `nibetuk`; the frequent ones are the shortest), and no stemmer takes the
end of one for an ending. Their frequencies follow Zipf's law: of all text, the word of rank r makes up
ln((r + 1) / r) / ln(300,001), which is 5.5 % for the first. A seventh of them are inflected (-s, -ed, -ing), a fifth
begin with a capital or end with a sign, and one in 64 is an identifier (`#40214`, `v3.14.2`, `pon_mak`). Titles have 6
words; contents 55 in the mean, spread as real ones are. One document in a hundred has the text of another, and one in a
hundred is a tombstone. The documents of a small corpus are the first of a larger one.
"""

import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise
from pathlib import Path
from statistics import NormalDist
from typing import Any, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.search_peers import CHANGES, CHANGES_FILE, COMPARED, DOCUMENTS_FILE, QUERIES_FILE, Query

Column: TypeAlias = "pa.Array[Any]"

_WORDS = 300_000
_TITLE_LENGTH, _CONTENT_LENGTH, _SPREAD = 6, 55, 0.6
_CHUNK, _ROW_GROUP = 20_000, 5_000
_SOURCES, _AUTHORS, _LABELS = 20, 400, 30
_OLDEST, _DAYS = datetime(2023, 7, 1, tzinfo=UTC), 3 * 365
_TOMBSTONE, _TWIN = 37, 73
"""Which of each hundred documents it is."""
_RARE = (5, 50)
"""In how many documents a rare word should be."""
_MEDIUM = (0.005, 0.01)
"""In what share of them a medium one should be."""
_COMMON = range(1, 11)
"""Ranks."""
_SYLLABLES = [consonant + vowel for consonant in "bdfghjklmnprstvz" for vowel in "aeiou"]
_LAST_SYLLABLES = [consonant + end for consonant in "bdfghjklmnprstvz" for end in ("ak", "om", "un", "ap", "ok", "um")]
_SUFFIXES = ("", "s", "ed", "ing", ",", ".")
_FORMS = (0,) * 42 + (1,) * 5 + (2,) * 2 + (3,) * 2 + (4,) * 4 + (5,) * 4 + (6,) * 4 + (7,)
"""Of 64 words, how many have which suffix, a capital (6), or are no words but identifiers (7)."""


def write(folder: Path, documents_count: int, queries_count: int) -> None:
    """Write the documents, those that change, and the queries, of which there are so many of each kind."""
    words = vocabulary()
    texts = _Texts(words)
    schema = _documents(texts, 0, 1).schema
    with pq.ParquetWriter(folder / DOCUMENTS_FILE, schema) as file:
        for first in range(0, documents_count, _CHUNK):
            count = min(_CHUNK, documents_count - first)
            file.write_table(_documents(texts, first, count), row_group_size=_ROW_GROUP)
    pq.write_table(_changes(texts, documents_count), folder / CHANGES_FILE)
    first_documents = pq.ParquetFile(folder / DOCUMENTS_FILE).read_row_group(0, ["content"])
    found = _Asker(words, [str(text) for text in first_documents["content"]], documents_count, queries_count).queries()
    (folder / QUERIES_FILE).write_text(json.dumps([asdict(query) for query in found]))


def vocabulary() -> list[str]:
    """Give the words by rank, from 1; 0 is none."""
    words = [""]
    for leading in range(3):
        radices = [_SYLLABLES] * leading + [_LAST_SYLLABLES]
        size = math.prod(map(len, radices))
        for number in range(min(size, _WORDS + 1 - len(words))):
            rest = number * 7919 % size  # a prime: neighbours in rank are no neighbours in the alphabet
            word = ""
            for syllables in reversed(radices):
                rest, place = divmod(rest, len(syllables))
                word = syllables[place] + word
            words.append(word)
    return words


class _Texts:
    """Makes texts out of random bytes, by columns."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words_count = len(words)
        inflected = (_inflected(word, suffix) for suffix in _SUFFIXES for word in words)
        self._forms = pa.array([*inflected, *(word.capitalize() for word in words), *_identifiers(words)])
        self._form_starts = pa.array([form * len(words) for form in _FORMS], pa.int32())
        deviations = [NormalDist().inv_cdf((n + 0.5) / 256) for n in range(256)]
        lengths = [math.exp(_SPREAD * z - _SPREAD**2 / 2) * _CONTENT_LENGTH for z in deviations]
        self._lengths = pa.array([round(length) for length in lengths], pa.int32())

    def make(self, seed: str, count: int) -> tuple[Column, Column]:
        """Give so many titles and contents."""
        choice = random.Random(seed)  # noqa: S311 -- the same texts in every run
        lengths = self._lengths.take(_random(choice, pa.uint8(), count))
        titles = self._joined(choice, pa.repeat(pa.scalar(_TITLE_LENGTH, pa.int32()), count))
        return titles, self._joined(choice, lengths)

    def _joined(self, choice: random.Random, lengths: Column) -> Column:
        offsets: Any = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
        count = offsets[-1].as_py() or 0
        shares = pc.divide(pc.cast(_random(choice, pa.uint32(), count), pa.float64()), pa.scalar(2.0**32))
        ranks = pc.cast(pc.floor(pc.power(pa.scalar(float(self._words_count)), shares)), pa.int32())
        forms = pc.bit_wise_and(_random(choice, pa.uint8(), count), pa.scalar(len(_FORMS) - 1, pa.uint8()))
        words: Column = self._forms.take(pc.add(ranks, self._form_starts.take(forms)))
        return cast("Column", pc.binary_join(pa.ListArray.from_arrays(offsets, words), " "))


def _inflected(word: str, suffix: str) -> str:
    """Put a suffix on; with -ed or -ing, stemmers would make another word of one syllable."""
    return word + ("s" if len(word) <= len(_LAST_SYLLABLES[0]) and suffix in {"ed", "ing"} else suffix)


def _identifiers(words: Sequence[str]) -> list[str]:
    """Make as many as there are words, of three kinds."""
    choice = random.Random(2)  # noqa: S311 -- the same in every run
    made = []
    for number in range(len(words)):
        match number % 3:
            case 0:
                made.append(f"#{choice.randrange(100_000)}")
            case 1:
                made.append(f"v{choice.randrange(10)}.{choice.randrange(40)}.{choice.randrange(100)}")
            case _:
                made.append("_".join(words[choice.randrange(1, 2_000)] for _ in range(2)))
    return made


def _random(choice: random.Random, kind: pa.DataType, count: int) -> Column:
    buffer = pa.py_buffer(choice.randbytes(count * kind.bit_width // 8))
    return cast("Column", pa.Array.from_buffers(kind, count, [None, buffer]))


def _documents(texts: _Texts, first: int, count: int) -> pa.Table:
    titles, contents = texts.make(f"documents {first}", count)
    rows = [row - 1 if (first + row) % 100 == _TWIN and row else row for row in range(count)]
    return _facts(range(first, first + count), titles.take(pa.array(rows)), contents.take(pa.array(rows)))


def _changes(texts: _Texts, documents_count: int) -> pa.Table:
    """Give for each batch of `CHANGES` live documents that shall have another text."""
    live = [number for number in range(documents_count) if number % 100 != _TOMBSTONE]
    choice = random.Random(3)  # noqa: S311 -- the same choice in every run
    tables = []
    for batch, wanted in enumerate(CHANGES):
        numbers = sorted(choice.sample(live, min(wanted, len(live))))
        table = _facts(numbers, *texts.make(f"changes {batch}", len(numbers)))
        tables.append(table.append_column("batch", pa.array([batch] * len(numbers))))
    return pa.concat_tables(tables)


def _facts(numbers: Sequence[int], titles: Column, contents: Column) -> pa.Table:
    """Give whole documents; all but the text follows from their numbers."""
    mixed = [number * 2_654_435_761 % 2**32 for number in numbers]
    sources = [f"source{mix // 4096 % _SOURCES:02}" for mix in mixed]
    closed = ("open", "open", "closed")
    return pa.table(
        {
            "number": pa.array(numbers, pa.int64()),
            "doc_id": [f"{source}:bench:{number}" for source, number in zip(sources, numbers, strict=True)],
            "source": sources,
            "title": titles,
            "content": contents,
            "author": [f"author{mix // 64 % _AUTHORS:03}" for mix in mixed],
            "tags": [[f"status:{closed[mix // 16 % 3]}", f"label:l{mix // 1024 % _LABELS}"] for mix in mixed],
            "url": [f"https://example.org/{number}" for number in numbers],
            "updated_at": pa.array(
                [_OLDEST + timedelta(seconds=mix * _DAYS * 86_400 // 2**32) for mix in mixed], pa.timestamp("us", "UTC")
            ),
            "is_deleted": [number % 100 == _TOMBSTONE for number in numbers],
        }
    )


class _Asker:
    """Makes queries about the documents, so many of each kind."""

    def __init__(self, words: Sequence[str], contents: Sequence[str], documents_count: int, count: int) -> None:
        self._words = words
        self._contents = contents
        self._count = count
        self._choice = random.Random(4)  # noqa: S311 -- the same choice in every run
        self._rare = range(*(_rank(found / documents_count) for found in reversed(_RARE)))
        self._medium = range(*(_rank(share) for share in reversed(_MEDIUM)))

    def queries(self) -> list[Query]:
        """Give all of them, those of a kind together."""
        pairs = self._choice.sample(list(combinations(self._words[1 : _COMMON.stop], 2)), self._count)
        kinds = {
            "no document": [Query((f"wyxoq{word}",)) for word in self._some(self._medium)],
            COMPARED: [Query((word,)) for word in self._some(self._rare)],
            "medium": [Query((word,)) for word in self._some(self._medium)],
            "common": [Query((word,)) for word in self._some(_COMMON)],
            "two common": [Query(pair) for pair in pairs],
            "rare or common": [Query(pair) for pair in self._pairs(self._rare, _COMMON)],
            "both of two common": [Query(pair, match_all=True) for pair in pairs],
            "medium, a source": [Query((w,), source=f"source{n:02}") for n, w in self._numbered()],
            "medium, a tag": [Query((w,), tag_prefix=f"label:l{n % 7 + 3}") for n, w in self._numbered()],
            "medium, 3 months": [Query((w,), *_months(3 * n)) for n, w in self._numbered()],
            "phrase of medium": self._phrases(range(self._medium.start // 2, self._medium.stop)),
            "phrase of common": self._phrases(_COMMON),
            "prefix": [Query((w[: 3 + n % 2],), is_prefix=True) for n, w in self._numbered()],
            "medium without common": [Query((w,), excluded=x) for w, x in self._pairs(self._medium, _COMMON)],
            "medium, in titles": [Query((w,), title_only=True) for w in self._some(self._medium)],
            "blank": [Query(())],
        }
        return [replace(query, kind=kind) for kind, made in kinds.items() for query in made]

    def _some(self, ranks: range) -> list[str]:
        return [self._words[rank] for rank in self._choice.sample(ranks, self._count)]

    def _numbered(self) -> Iterator[tuple[int, str]]:
        return enumerate(self._some(self._medium))

    def _pairs(self, ranks: range, others: range) -> Iterator[tuple[str, str]]:
        return zip(self._some(ranks), self._some(others), strict=True)

    def _phrases(self, ranks: range) -> list[Query]:
        """Find words of these ranks that stand one after the other."""
        allowed = set(self._words[ranks.start : ranks.stop])
        found = {
            pair
            for text in self._contents
            for pair in pairwise(text.split())
            if pair[0] != pair[1] and allowed >= set(pair)
        }
        return [Query(pair, is_phrase=True) for pair in self._choice.sample(sorted(found), self._count)]


def _rank(share: float) -> int:
    """Give the rank of the words that stand in this share of the documents."""
    return min(round((_TITLE_LENGTH + _CONTENT_LENGTH) / share / math.log(_WORDS + 1)), _WORDS)


def _months(first: int) -> tuple[str, str]:
    """Give the beginning and the end of three months."""
    since = _OLDEST + timedelta(days=first * 30)
    return since.strftime("%Y-%m-%dT%H:%M:%SZ"), (since + timedelta(days=91)).strftime("%Y-%m-%dT%H:%M:%SZ")
