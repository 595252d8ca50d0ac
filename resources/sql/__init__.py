"""The SQL of Tributary, one statement or script a file; parameters are bound, never pasted."""

from functools import cache
from importlib.resources import files


@cache
def statement(name: str) -> str:
    """Give the text of `<name>.sql`."""
    return files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
