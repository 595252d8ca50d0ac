"""What Tributary costs where nothing is to be done: loading the definitions, and a sync of 100 unchanged scopes."""

import sys

from bench.measure import home, imports, measured

SCOPES = 100


def main() -> None:
    """Print the figures."""
    with home() as bench:
        scopes = [bench.folder / f"scope{number:03}" for number in range(SCOPES)]
        for scope in scopes:
            scope.mkdir()
            (scope / "note.md").write_text(f"# {scope.name}\n\nOne note.\n")
        bench.configure({"many": {"connector": "files", "scopes": list(map(str, scopes)), "sync": "*/15 * * * *"}})
        command = [sys.executable, "-c", "import assets.definitions as d; d.defs().resolve_all_job_defs()"]
        load = min(measured(command, bench.folder).cpu_seconds for _ in range(3))
        print(f"definitions of {SCOPES} scopes, imports included: {load:.2f} CPU s")
        base = imports()
        print(f"imports of the command line: {base:.2f} CPU s")
        bench.run("sync", "--json")
        runs = sorted(bench.run("sync", "--json").cpu_seconds - base for _ in range(3))
        print(f"no-change sync of {SCOPES} scopes, beyond imports: {runs[1]:.2f} CPU s (median of 3)")


if __name__ == "__main__":
    main()
