"""Upstreams on a real socket: a server that misbehaves as it is told (`server`), and services for it to serve."""
