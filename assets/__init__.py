"""The Dagster graph and the command line: nothing here knows an upstream or a table."""
