"""Imported by the fork server alone, which can be told nothing but modules to import."""

from rollog.template import preload

preload()
