"""Statements, filings and agreements: retrieval, computation, conclusion."""
