"""`python -m assets`."""

import gc

# Nothing that an import makes is garbage: looking for it while importing, and through it ever after, took a fifth
# of the CPU of a command that finds nothing to do.
gc.disable()
from assets.cli import app  # noqa: E402 -- see above

gc.freeze()
# A load makes many objects that live for a moment; looking among them every 700 for cycles took a tenth of its CPU.
gc.set_threshold(50_000, 20, 100)
gc.enable()
app()
