"""The files connector, on real folders."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ingestion.errors import ConfigurationError, RecordError, ScopeNotFoundError
from ingestion.markup import HTML, MARKDOWN, RST, TEXT, read_markup
from ingestion.model import Document, Record
from resources.connectors.files import FilesConnector

FILES = FilesConnector()
ROOT = Path(__file__).parent.parent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with one note."""
    write(tmp_path / "one.md", "# One")
    return tmp_path


def write(path: Path, text: str | bytes) -> Path:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def sync(
    folder: Path, cursor: str | None = None, connector: FilesConnector = FILES
) -> tuple[dict[str, bytes], str | None]:
    """Read all that is new; give it, and the cursor to go on from."""
    found: dict[str, bytes] = {}
    for page in connector.pages(str(folder), cursor):
        cursor = page.cursor
        found |= {record.source_id: record.payload for record in page.records}
    return found, cursor


def settled_sync(folder: Path, cursor: str | None = None) -> str | None:
    """Sync, wait until nothing is young, sync again: the cursor now stands behind everything."""
    _, cursor = sync(folder, cursor)
    time.sleep(1.05)
    return sync(folder, cursor)[1]


def document(text: str | bytes, media_type: str = MARKDOWN, source_id: str = "docs/x.md") -> Document:
    """Map one file."""
    payload = text.encode() if isinstance(text, str) else text
    (mapped,) = FILES.documents(
        "scope", Record(source_id, "file", payload, media_type, attributes={"url": "file:///x"})
    )
    return mapped


def targets(text: str, media_type: str = MARKDOWN) -> list[str]:
    """Give what a file links to."""
    return [link.target for link in document(text, media_type).links]


def test_a_sync_reads_all_then_settles_and_then_reads_edits(folder: Path) -> None:
    """Young files come once more; then only what changed comes, old mtimes notwithstanding."""
    write(folder / "sub/two.txt", "two")
    found, cursor = sync(folder)
    assert found == {"one.md": b"# One", "sub/two.txt": b"two"}
    assert FILES.changed(str(folder), cursor)
    time.sleep(1.05)
    again, cursor = sync(folder, cursor)
    assert again == found
    assert not FILES.changed(str(folder), cursor)
    assert sync(folder, cursor) == ({}, cursor)
    os.utime(write(folder / "sub/two.txt", "edited"), (1, 1))
    assert FILES.changed(str(folder), cursor)
    assert sync(folder, cursor)[0] == {"sub/two.txt": b"edited"}


def test_an_edit_in_the_same_clock_tick_is_not_lost(folder: Path) -> None:
    """The cursor never passes what is younger than a second."""
    cursor: str | None = None
    for number in range(50):
        write(folder / "one.md", str(number))
        found, cursor = sync(folder, cursor)
        assert found == {"one.md": str(number).encode()}


def test_moves_and_replacements_arrive(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A renamed file, a folder moved over another of the same names, and a swapped scope bring new bytes by `pages`."""
    write(folder / "docs/a.md", "old")
    new = tmp_path_factory.mktemp("elsewhere")
    write(new / "docs/a.md", "new")
    write(new / "whole/one.md", "swapped")
    cursor = settled_sync(folder)
    (folder / "one.md").rename(folder / "renamed.md")
    shutil.rmtree(folder / "docs")
    (new / "docs").rename(folder / "docs")
    found, cursor = sync(folder, cursor)
    assert found == {"renamed.md": b"# One", "docs/a.md": b"new"}
    assert set(FILES.census(str(folder))) == set(found)
    cursor = settled_sync(folder, cursor)
    folder.rename(new / "old")
    (new / "whole").rename(folder)
    assert sync(folder, cursor)[0] == {"one.md": b"swapped"}


def test_a_cursor_from_the_future_or_from_nowhere_starts_again(folder: Path) -> None:
    """A clock that was set back, or a cursor that is not ours, costs a full read and loses nothing."""
    tomorrow = json.dumps([time.time_ns() + 86_400_000_000_000, "z"])
    for cursor in (tomorrow, "", "rubbish", "[1]", "{}", "null"):
        assert sync(folder, cursor)[0] == {"one.md": b"# One"}
        assert FILES.changed(str(folder), cursor)


def test_pages_are_bounded_and_resume(folder: Path) -> None:
    """Any page's cursor continues without loss, for ties as well."""
    for number in range(1200):
        (folder / f"{number:04d}.txt").write_bytes(b"x")
    time.sleep(1.05)
    pages = list(FILES.pages(str(folder), None))
    assert [len(page.records) for page in pages] == [500, 500, 201]
    assert len({page.cursor for page in pages}) == 3
    rest = sync(folder, pages[0].cursor)[0]
    assert len(rest) == 701
    assert not rest.keys() & {record.source_id for record in pages[0].records}


def test_a_page_ends_where_it_has_two_megabytes(folder: Path) -> None:
    """Large files do not pile up in memory."""
    for number in range(4):
        write(folder / f"{number}.txt", b"x" * 1_500_000)
    sizes = [sum(len(record.payload) for record in page.records) for page in FILES.pages(str(folder), None)]
    assert sum(sizes) > 6_000_000
    assert max(sizes) < 2_000_000 + 1_500_000


def test_too_large_files_are_rejected_with_their_size(folder: Path) -> None:
    """The record is there, its bytes are not, and the reject says why."""
    connector = FilesConnector(max_bytes=4)
    write(folder / "four.md", "four")
    records = {record.source_id: record for page in connector.pages(str(folder), None) for record in page.records}
    assert records["four.md"].payload == b"four"
    assert records["one.md"].payload == b""
    with pytest.raises(RecordError, match="has 5 bytes, max_bytes is 4"):
        list(connector.documents("s", records["one.md"]))


def test_globs_choose(folder: Path) -> None:
    """Names, paths, `**`, case; ignored folders are not entered."""
    for name in (".git/a.md", "node_modules/b.md", "d/e/c.MD", "d/README", "d/x.md", "f.bin", "d/.hidden.md", "ls.1"):
        write(folder / name, "x")
    assert set(FILES.census(str(folder))) == {"one.md", "d/e/c.MD", "d/x.md"}
    chosen = FilesConnector(include=["README", "*.[0-9]", "d/**/*.md"], ignore=["/d/x.md", "e/"])
    assert set(chosen.census(str(folder))) == {"d/README", "ls.1", "d/.hidden.md"}
    assert set(FilesConnector(include=["**"], ignore=["d"]).census(str(folder))) == {
        *("one.md", ".git/a.md", "node_modules/b.md", "f.bin", "ls.1")
    }
    for source_id in (".git/a.md", "f.bin", "d/README", "node_modules/b.md"):
        assert FILES.get(str(folder), source_id) is None
    with pytest.raises(ConfigurationError, match="not a list of globs"):
        FilesConnector(include=["[z-a].md"]).check(str(folder))


def test_links_and_devices_are_left_out(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No way leads out of the scope, in circles, or to a pipe that never ends."""
    outside = write(tmp_path_factory.mktemp("outside") / "secret.md", "secret").parent
    (folder / "out").symlink_to(outside)
    (folder / "out.md").symlink_to(outside / "secret.md")
    (folder / "in.md").symlink_to(folder / "one.md")
    (folder / "loop").symlink_to(folder)
    (folder / "dead.md").symlink_to("nowhere")
    os.mkfifo(folder / "pipe.md")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket.md"))
        assert sync(folder)[0].keys() == set(FILES.census(str(folder))) == {"one.md"}
        for source_id in ("out/secret.md", "out.md", "in.md", "loop/one.md", "dead.md", "pipe.md", "socket.md"):
            assert FILES.get(str(folder), source_id) is None, source_id
    link = outside / "link"
    link.symlink_to(folder)
    assert set(FILES.census(str(link))) == {"one.md"}  # the scope itself may be a link
    assert FILES.get(str(link), "one.md") is not None


@pytest.mark.parametrize("source_id", ["../x.md", "/etc/x.md", "a/../one.md", "./one.md", "", ".", "one.md/", "\0.md"])
def test_get_stays_in_the_scope(folder: Path, source_id: str) -> None:
    """An id that no file can have names nothing, whatever the file system would make of it."""
    assert FILES.get(str(folder), source_id) is None
    assert FILES.get(str(folder), "x" * 300 + ".md") is None
    assert FILES.get(str(folder), "one.md/x.md") is None


def test_any_name_works(folder: Path) -> None:
    """Ids are storable, tell all names apart, and find their file again."""
    names = [b"caf\xe9.md", b"caf%E9.md", "café.md".encode(), b"CAF\xc3\x89.md", b"a\nb.md", "😀 \u202e.md".encode()]
    names += [b"100%.md", b"\xff%.md", b"x" * 250 + b".md", b"d\xe9p/n.md", b" .md", b"-rf.md", b"\xed\xa0\x80.md"]
    for name in names:
        path = os.path.join(os.fsencode(folder), name)  # noqa: PTH118  # pathlib has no bytes
        os.makedirs(path.rpartition(b"/")[0], exist_ok=True)  # noqa: PTH103
        with open(path, "wb") as file:  # noqa: PTH123
            file.write(name)
    found, _ = sync(folder)
    assert set(FILES.census(str(folder))) == found.keys()
    assert sorted(found.values()) == sorted([*names, b"# One"])
    for source_id, payload in found.items():
        source_id.encode()
        record = FILES.get(str(folder), source_id)
        assert record is not None
        assert (record.source_id, record.payload) == (source_id, payload)
        assert record.attributes["url"].isascii()
        assert document(payload, source_id=source_id).title.encode()


def test_a_missing_scope_is_never_empty(folder: Path) -> None:
    """Neither a census nor a fetch mistakes a missing folder for an empty one."""
    for scope in (str(folder / "nowhere"), str(folder / "one.md"), "a\0b", str(folder / "one.md/x")):
        for call in (
            FILES.check,
            lambda scope: list(FILES.pages(scope, None)),
            lambda scope: list(FILES.census(scope)),
        ):
            with pytest.raises(ScopeNotFoundError):
                call(scope)
        with pytest.raises(ScopeNotFoundError):
            FILES.get(scope, "one.md")
    assert FILES.check(str(folder)) == FILES.check()
    assert FILES.get(str(folder), "one.md") is not None
    (folder / "one.md").unlink()
    assert FILES.get(str(folder), "one.md") is None


UNPRIVILEGED = """
import os, sys, json
from resources.connectors.files import FilesConnector
from ingestion.errors import ConfigurationError
os.setuid(65534)
files, scope = FilesConnector(), sys.argv[1]
def attempt(function):
    seen = []
    try:
        for one in function(): seen.append(one)
    except ConfigurationError as error: return seen, str(error)
    return seen, ""
pages, problem = attempt(lambda: files.pages(scope, None))
got = attempt(lambda: iter([files.get(scope, "locked/in.md")]))
print(json.dumps({"records": {r.source_id: r.attributes.get("error", "") for p in pages for r in p.records},
    "pages": problem, "census": attempt(lambda: files.census(scope)), "get": got[1],
    "check": attempt(lambda: iter([files.check(scope).name]))}))
"""


@pytest.fixture
def reachable(folder: Path) -> Iterator[Path]:
    """Let any user reach the folder, as pytest's own are private."""
    parents = [
        parent for parent in (folder, *folder.parents) if parent.stat().st_uid == os.getuid() and parent != Path("/")
    ]
    modes = {parent: parent.stat().st_mode for parent in parents}
    for parent in parents:
        parent.chmod(modes[parent] | 0o055)
    yield folder
    for parent, mode in modes.items():
        parent.chmod(mode)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_unreadable_files_are_rejects_and_unlisted_folders_errors(reachable: Path) -> None:
    """What can be read is read; a census that cannot be complete raises; nothing is taken for gone."""

    def attempt() -> dict[str, object]:
        command = [sys.executable, "-c", UNPRIVILEGED, str(reachable)]
        run = subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
        return dict(json.loads(run.stdout))

    secret = write(reachable / "secret.md", "x")
    secret.chmod(0)
    reason = "cannot be read: Permission denied"
    seen = attempt()
    assert seen["records"] == {"one.md": "", "secret.md": reason}
    assert seen["pages"] == ""
    assert sorted(seen["census"][0]) == ["one.md", "secret.md"]  # type: ignore[index]
    write(reachable / "locked/in.md", "x")
    for mode in (0o700, 0o744):  # neither listed nor entered; listed only
        (reachable / "locked").chmod(mode)
        seen = attempt()
        assert seen["records"] == {"one.md": "", "secret.md": reason}
        for problem in (seen["pages"], seen["census"][1]):  # type: ignore[index]
            assert "locked/'. Let uid 65534 read and enter them" in str(problem)
        assert "locked/in.md" in str(seen["get"])
    reachable.chmod(0o711)
    assert "may not be listed" in str(attempt()["check"])


def test_what_becomes_readable_arrives(folder: Path) -> None:
    """A chmod of a file or of a folder brings its files, however old they are."""
    write(folder / "sub/two.md", "two")
    cursor = settled_sync(folder)
    (folder / "sub").chmod(0o700)
    assert sync(folder, cursor)[0] == {"sub/two.md": b"two"}
    (folder / "one.md").chmod(0o600)
    assert sync(folder, cursor)[0] == {"sub/two.md": b"two", "one.md": b"# One"}


def test_the_record_is_what_the_file_is(folder: Path) -> None:
    """Original bytes, mtime, kind and address; times that no calendar has are none."""
    os.utime(write(folder / "a b.HTM", b"\xff\0"), (86_400, 86_400))
    record = FILES.get(str(folder), "a b.HTM")
    assert record is not None
    assert (record.payload, record.media_type, record.record_type) == (b"\xff\0", HTML, "file")
    assert record.updated_at == datetime(1970, 1, 2, tzinfo=UTC)
    assert record.attributes == {"url": f"file://{folder}/a%20b.HTM"}


def test_front_matter_becomes_the_documents_fields() -> None:
    """Title, tags, people and dates have their place, the rest is metadata; the text has no front matter."""
    mapped = document(
        "\ufeff---\r\ntitle: 'A note'\ntags: [Work/Plans, '#Öl', work/plans]\nauthor: Doe, Jane\n"
        "authors: [Bob, {name: Eve}]\n"
        "aliases: [other name]\ncreated: 2025-01-02\nupdated: 2025-02-03T04:05:06+02:00\ndate: someday\n"
        "due: 2025-05-05\ndeep: {1: [null, .inf, 2.5]}\n---\n\n# Heading\n"
    )
    assert (mapped.title, mapped.content, mapped.channel) == ("A note", "# Heading", "docs")
    assert mapped.tags == ("tag:work/plans", "tag:öl")
    assert (mapped.author, mapped.participants) == ("Doe, Jane", ("Doe, Jane", "Bob", "Eve"))
    assert mapped.created_at == datetime(2025, 1, 2, tzinfo=UTC)
    assert mapped.updated_at == datetime(2025, 2, 3, 2, 5, 6, tzinfo=UTC)
    assert mapped.metadata == {
        "path": "docs/x.md",
        "media_type": MARKDOWN,
        "aliases": ["other name"],
        "front_matter": {"date": "someday", "due": "2025-05-05", "deep": {"1": [None, "inf", 2.5]}},
    }
    assert document("---\ntags: one, Two\n---\n").tags == ("tag:one", "tag:two")


@pytest.mark.parametrize(
    "block",
    [
        "a: [",
        "a: &x [1]\nb: *x",
        "a: 2024-13-45",
        "\t- x: : y",
        "a: !!python/object:os.system x",
        "[" * 30_000,
        "- " * 30_000,
        "? " * 9_999,
        "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n",
        "{a: b}: c",
    ],
    ids=lambda block: block[:9],
)
def test_broken_front_matter_stays_text(block: str) -> None:
    """The whole text is kept, the reason is one line, and nothing explodes."""
    text = f"---\n{block.strip()}\n---\nbody"
    mapped = document(text)
    assert mapped.content == text
    assert str(mapped.metadata["front_matter_error"]).strip()
    assert "\n" not in str(mapped.metadata["front_matter_error"])


@pytest.mark.parametrize(
    "text", ["---\njust prose\n---\nx", "---\nno end", "---", "----\na: b\n---", "---\n- a\n---\nx"]
)
def test_rulers_are_not_front_matter(text: str) -> None:
    """What is no mapping between two rulers is text."""
    mapped = document(text)
    assert mapped.content == text
    assert set(mapped.metadata) == {"path", "media_type"}


def test_front_matter_is_storable() -> None:
    """YAML can spell what no database stores, and numbers that Python does not write out."""
    mapped = document('---\ntitle: "a\\0b"\ntags: ["\\0x"]\nbig: 0x' + "F" * 9_000 + '\nk: "\\0"\n"\\0k": 1\n---\n')
    assert mapped.tags == ("tag:x",)
    for text in (mapped.title, json.dumps(mapped.metadata, ensure_ascii=False)):
        assert "\0" not in text
        text.encode()


@pytest.mark.parametrize(
    ("media_type", "text", "title"),
    [
        (MARKDOWN, "```\n# no\n```\n\n## See [the *x*](y.md) ##\n# later", "See the *x"),
        (MARKDOWN, "# C#", "C#"),
        (MARKDOWN, "Under\n=====\n", "Under"),
        (MARKDOWN, "- item\n---\n#hash\ntext", "x"),
        (RST, "=====\nTitle\n=====\n\nx", "Title"),
        (RST, "para\n\nTop 日本\n~~~~~~~~\n", "Top 日本"),
        (HTML, "<title></title><h1>Head</h1>", "Head"),
        (HTML, "<title>T</title><h1>Head</h1>", "T"),
        (TEXT, "# not a heading here", "x"),
        (MARKDOWN, "", "x"),
        (MARKDOWN, "# " + "long " * 1000, "long " * 59 + "long"),
    ],
)
def test_titles(media_type: str, text: str, title: str) -> None:
    """The first heading of each syntax, else the file's name."""
    assert document(text, media_type).title == title


def test_markdown_links() -> None:
    """Paths are resolved within the scope, addresses kept, code and fragments left out."""
    text = """[a](b.md#part) [up](../c%20d.md "title") [out](../../e.md) <a href="g.html">g</a> ![i](<my pic.png>)
[[Wiki|label]] [[Wiki#h]] ![[embed.png]] [[dir/Page]] [[../Rel\\|x]] [[#here]] [root](/top.md) [ref][r] [q](x.md?raw=1)
<https://auto.example/x>, https://bare.example/a_(b). [w](https://w.example/A_(b)) [m](mailto:a@b) [j](JavaScript:x)
[f](#f) `[code](no.md)` [e]() [dir](.)

~~~md
[[no]] [no](no.md)
~~~
   [r]: <ref.md> "title"
"""
    assert targets(text) == [
        *("docs/b.md", "c d.md", "../../e.md", "docs/g.html", "docs/my pic.png", "wiki:Wiki", "wiki:embed.png"),
        *("dir/Page.md", "Rel.md", "top.md", "docs/x.md", "https://auto.example/x", "https://bare.example/a_(b)"),
        *("https://w.example/A_(b)", "docs", "docs/ref.md"),
    ]
    assert "\0" not in "".join(targets("[x](a%00b.md)"))


def test_rst_and_html_links() -> None:
    """Hyperlinks, roles and definitions of the one, anchors of the other."""
    text = """See `x <b.rst>`_, :doc:`page`, :doc:`T </top/page>`, `n <name_>`_, https://bare.example/x.

.. _target: https://t.example/
.. _here:

Code::

   https://no.example `no <no.rst>`_

.. note::
   `in <note.rst>`__
"""
    assert targets(text, RST) == [
        *(
            "docs/b.rst",
            "docs/page.rst",
            "top/page.rst",
            "https://bare.example/x",
            "https://t.example/",
            "docs/note.rst",
        )
    ]
    assert targets("<a href='x.html#y'>x</a><a href='mailto:x'>m</a><a href=https://z.example>", HTML) == [
        *("docs/x.html", "https://z.example")
    ]


@pytest.mark.parametrize(
    "unit", ["[", "](", "](a(", "[[a|", "`", "```\n", "~~~~\n```\n", "# ", "<a href='", ".. _a: ", "<`"]
)
@pytest.mark.parametrize("media_type", [MARKDOWN, RST])
def test_hostile_markup_costs_linear_time(media_type: str, unit: str) -> None:
    """Two megabytes of any mark."""
    started = time.process_time()
    read_markup(b"# " + unit.encode() * (2_000_000 // len(unit)), media_type, "a.md")
    assert time.process_time() - started < 10


def test_texts_of_any_charset_and_what_is_no_text() -> None:
    """Charsets are seen through, pages declare theirs, pictures are refused."""
    assert document("Größe café".encode("latin-1"), TEXT, "a.txt").content == "Größe café"
    assert document('<meta charset="shift_jis"><p>日本'.encode("cp932"), HTML).content == "日本"
    assert document(b"a\0b", TEXT).content == "ab"
    assert document("wide text".encode("utf-16"), TEXT).content == "wide text"
    with pytest.raises(RecordError, match="not text"):
        document(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8, TEXT)


def test_the_examples_map_without_loss() -> None:
    """The shipped folders are read whole, and their links meet their files."""
    known: dict[str, Document] = {}
    for scope in ("notes", "handbook", "policies"):
        for page in FILES.pages(str(ROOT / "examples" / scope), None):
            for record in page.records:
                known |= {f"{scope}/{one.source_id}": one for one in FILES.documents(scope, record)}
    assert len(known) == 17
    assert "poêle" in known["policies/regles-atelier.txt"].content
    for name, one in known.items():
        for link in one.links:
            if not link.target.startswith(("https:", "wiki:", "../")) and link.target != "incidents.rst":
                assert f"{name.split('/')[0]}/{link.target}" in known
