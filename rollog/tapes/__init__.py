"""Verbs about tapes, and those that need one: `rollog tape`, `replay`, `archive`."""
