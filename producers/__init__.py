"""Brings new facts into the log."""
