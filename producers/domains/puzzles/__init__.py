"""Puzzle families of other libraries, which are extras."""
