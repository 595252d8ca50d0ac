"""Scripts that print the figures of the README: `make bench`, or each alone by `python -m bench.<name>`."""
