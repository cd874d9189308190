"""Solids that are built, placed, given materials and rendered by tool calls."""
