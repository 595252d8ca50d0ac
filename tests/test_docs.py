"""Docs that fail the build: what they show is run, what they name exists, and what exists they name."""

import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import duckdb
import pytest
import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from assets.checks import checks
from assets.cli import app
from assets.definitions import build
from resources.sources import load_config
from resources.warehouse import Warehouse
from scripts.tables import page

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
OPERATION = (DOCS / "how-to/operate.md").read_text(encoding="utf-8")
LAWS = 9
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_TARGET = re.compile(r"(?:^|[$;&] )make ([a-z][a-z-]*)", re.MULTILINE)
_OUR_FILE = re.compile(r"\b(?:assets|bench|docs|examples|ingestion|resources|scripts|tests)/[\w/-]+\.\w+")
_WIDTH = 120


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def code_of(text: str) -> list[str]:
    """Give what stands in blocks, and between backticks elsewhere."""
    return [body for _, body in _BLOCK.findall(text)] + _INLINE.findall(_BLOCK.sub("", text))


# What the pages show is run


class Copy:
    """A fresh copy of the project, as its user has it: without data, with an environment that is installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # With their times, lest make thinks that something is new; without .env, .git and the caches.
        shutil.copytree(ROOT, folder, ignore=_left_out)
        (folder / ".venv").symlink_to(sys.prefix)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")} | {
            "PATH": f"{folder}/.venv/bin:{os.environ['PATH']}",
            "MAKEFLAGS": "-o .venv/.installed",  # whatever its time: a test installs nothing
        }

    def run(self, command: str) -> str:
        """Run a command by bash, and give what it wrote to the output stream."""
        done = subprocess.run(
            ["/usr/bin/env", "bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def ask(self, query: str) -> str:
        """Ask the newest snapshot, and give the box that DuckDB draws."""
        snapshot = (self.folder / "data/published/current.duckdb").resolve()
        with duckdb.connect(str(snapshot), read_only=True) as connection, redirect_stdout(io.StringIO()) as out:
            connection.execute("SET timezone = 'UTC'")
            connection.sql(query).show(max_width=_WIDTH)
        return out.getvalue()


def _left_out(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(".") or name == "data"] if folder == str(ROOT) else []


def steps(text: str) -> Iterator[tuple[str, str, str]]:
    """Give the steps of a page, in order: `console` or `sql`, what to do, and the output to expect."""
    query = ""
    for language, body in _BLOCK.findall(text):
        if language == "console":
            for step in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, output = re.fullmatch(r"(.*\n(?:> .*\n|>\n)*)((?:.*\n)*)", step).groups()  # type: ignore[union-attr]
                yield "console", re.sub(r"^> ?", "", command, flags=re.MULTILINE), output
        elif language == "text" and query:
            yield "sql", query, body
        query = body if language == "sql" else ""


def is_like(output: str, expected: str) -> bool:
    """Compare by lines; `...` stands for anything in a line, and for any lines where it stands alone."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else re.escape(line.rstrip()).replace(r"\.\.\.", ".*") + r" *\n"
        for line in expected.splitlines()
    )
    return re.fullmatch(pattern, output.rstrip("\n") + "\n" if output.strip() else "") is not None


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md"])
def test_what_a_page_shows_is_what_happens(name: str, tmp_path: Path) -> None:
    copy = Copy(tmp_path / "tributary")
    found = list(steps(text_of(ROOT / name)))
    assert len(found) > 5
    for kind, step, expected in found:
        output = copy.run(step) if kind == "console" else copy.ask(step)
        assert is_like(output, expected), f"{name} shows for\n{step}\n{expected}\nbut it is\n{output}"


def test_dots_stand_for_anything_in_a_line_and_for_any_lines() -> None:
    assert is_like("a 1 b\nc\n", "a ... b\nc\n")
    assert is_like("a\nx\ny\nb\n", "a\n...\nb\n")
    assert is_like("a\nb  \n\n", "a\n...\nb\n")
    assert is_like("", "")
    assert not is_like("a\nb\n", "a\n")
    assert not is_like("a\n", "a\nb\n")
    assert not is_like("axb\n", "a.b\n")


# What exists is named


def commands() -> dict[str, TyperCommand]:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    found = {name: command for name, command in group.commands.items() if isinstance(command, TyperCommand)}
    assert len(found) == len(group.commands)
    return found


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_command_and_option_is_documented_and_has_help(name: str) -> None:
    told = text_of(ROOT / "README.md") + OPERATION
    command = commands()[name]
    assert command.help
    assert f"python -m assets {name}" in told
    for parameter in command.params:
        assert isinstance(parameter, TyperArgument | TyperOption)
        assert parameter.help, f"{name}: {parameter.name} has no help"
        if isinstance(parameter, TyperOption):
            assert parameter.opts[0] in told


def test_every_check_job_and_sensor_is_documented() -> None:
    config = load_config()
    definitions = build(config)
    slugs = "|".join(source.slug for source in config.sources.values())
    specs = checks(list(config.sources.values())).check_specs
    jobs = {re.sub(rf"_({slugs})$", "_*", job.name) for job in definitions.resolve_all_job_defs()}
    sensors = [sensor.name for sensor in definitions.sensors or ()]
    polls = {re.sub(rf"_({slugs})$", "_*", name) for name in sensors}
    named = {spec.name for spec in specs} | jobs | polls
    assert {"unique_keys", "sync_*", "census_*", "load", "prune", "automation", "poll_*"} <= named
    code = code_of(OPERATION)
    missing = {name for name in named if name not in code and not name.startswith("__")}
    assert missing == set(), "name them in docs/how-to/operate.md"


def test_the_page_of_tables_is_what_the_warehouse_says_of_itself() -> None:
    found = text_of(DOCS / "reference/tables.md")
    assert found == page(), "run `make docs`"


def test_every_table_view_and_macro_is_on_its_page(tmp_path: Path) -> None:
    found = text_of(DOCS / "reference/tables.md")
    with Warehouse(data=str(tmp_path)).connect() as connection:
        names = connection.execute("""
            SELECT view_name FROM duckdb_views() WHERE database_name = 'tributary' AND schema_name = 'main' UNION ALL
            SELECT table_name FROM duckdb_tables() WHERE database_name = 'tributary' AND schema_name = 'main' UNION ALL
            SELECT function_name FROM duckdb_functions()
            WHERE database_name = 'tributary' AND schema_name = 'main'
        """).fetchall()
    assert [name for (name,) in names if not re.search(rf"^### `{name}\b", found, re.MULTILINE)] == []


# What is named exists


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    prose = _INLINE.sub("", _BLOCK.sub("", text_of(path)))
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = path.parent / file if file else path
        if not there.exists() or (anchor and anchor not in anchors(text_of(there))):
            broken.append(target)
    assert broken == []


def anchors(text: str) -> set[str]:
    """Give the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", _BLOCK.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_targets_files_and_tests_that_are_named_exist(path: Path) -> None:
    code = code_of(text_of(path))
    targets = set(re.findall(r"^([a-z-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    assert {target for one in code for target in _TARGET.findall(one)} <= targets
    files = {file for one in code for file in _OUR_FILE.findall(one)}
    assert [file for file in files if not (ROOT / file).exists()] == []
    defined = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:def |class )?([Tt]est\w+)", text_of(file), re.MULTILINE)
    }
    assert {one for one in code if re.fullmatch(r"test_\w+|Test\w+", one)} <= defined


def test_every_law_names_the_tests_that_prove_it() -> None:
    rows = re.findall(r"^\| (\d) \| .+? \| (.+) \|$", text_of(DOCS / "explanation/how-it-works.md"), re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, LAWS + 1))
    assert [number for number, tests in rows if not re.search(r"`(test_\w+|Test\w+)`", tests)] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_can_be_read_in_an_editor(path: Path) -> None:
    assert [line for line in text_of(path).splitlines() if len(line) > 130 and not line.startswith("|")] == []
