"""Tests against real services, real crashes and large real data: `make test-real`."""
