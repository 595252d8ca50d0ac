"""`python -m assets`."""

from assets.cli import app

app()
