"""Shapes, names and settings of the log. Imports nothing else of ours."""
