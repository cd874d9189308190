"""Tapes: a piece of the log in one file, and the ways to write, read and verify it."""
