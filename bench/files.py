"""A real documentation tree through the whole pipeline: first sync, unchanged, 1 % changed.

`python -m bench.files [--files N] [FOLDER ...]` copies up to N files of the folders (by default the documentation and
the manual pages of this machine, decompressed) and syncs them with the command line. CPU seconds are those of the whole
command, imports and Dagster's own work included.
"""

import argparse
import gzip
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Figures, Home, home

DEFAULT_FOLDERS = [Path("/usr/share/doc"), Path("/usr/share/man")]


def main() -> None:
    """Print a table of the three syncs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("folders", type=Path, nargs="*", default=DEFAULT_FOLDERS)
    arguments = parser.parse_args()
    with home() as bench:
        tree = bench.folder / "tree"
        paths = copy_tree(arguments.folders, tree, arguments.files)
        size = sum(path.stat().st_size for path in paths) / 1e6
        print(f"{len(paths):,} files, {size:,.0f} MB, from {', '.join(map(str, arguments.folders))}\n")
        bench.configure({"docs": {"connector": "files", "scopes": [str(tree)], "include": ["*"], "ignore": []}})
        print("| sync | documents changed | CPU s | documents per CPU s | wall s | peak RSS MB |")
        print("|---|---:|---:|---:|---:|---:|")
        row("first", bench.run("sync", "--json"), len(paths))
        row("unchanged", bench.run("sync", "--json"), len(paths))
        edit(paths)
        row("1 % changed", bench.run("sync", "--json"), len(paths))
        sizes(bench)


def copy_tree(folders: list[Path], target: Path, limit: int) -> list[Path]:
    """Copy regular files, gzipped ones decompressed; give the copies."""
    copies: list[Path] = []
    for folder in folders:
        for path in walk(folder):
            if len(copies) >= limit:
                return copies
            copy = target / path.relative_to(folder.parent)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".gz":
                copy = copy.with_suffix("")
                with gzip.open(path) as packed, copy.open("wb") as plain:
                    shutil.copyfileobj(packed, plain)
            else:
                shutil.copyfile(path, copy)
            copies.append(copy)
    return copies


def walk(folder: Path) -> Iterator[Path]:
    """Yield the regular files below a folder, in order."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent, name)
            if path.is_file() and not path.is_symlink():
                yield path


def edit(paths: list[Path]) -> None:
    """Add a line to one file in a hundred."""
    for path in random.Random(1).sample(paths, len(paths) // 100):  # noqa: S311 -- the same choice in every run
        with path.open("ab") as file:
            file.write(b"\nOne more line.\n")


def row(name: str, figures: Figures, total: int) -> None:
    """Print one sync; its rate is over all documents that it had to account for."""
    scopes = figures.report["scopes"]
    changed = sum(scope["created"] + scope["updated"] + scope["rejected"] for scope in scopes)
    cpu = figures.cpu_seconds
    print(
        f"| {name} | {changed:,} | {cpu:.1f} | {total / cpu:,.0f} | {figures.wall_seconds:.1f} | {figures.peak_mb} |",
        flush=True,
    )


def sizes(bench: Home) -> None:
    """Print what the files take."""
    for name, pattern in (
        ("raw log", "raw/**/*.parquet"),
        ("warehouse", "warehouse.duckdb"),
        ("snapshot", "published/current.duckdb"),
    ):
        print(f"\n{name}: {bench.size_mb(pattern):,.0f} MB", end="")
    print()


if __name__ == "__main__":
    main()
