"""The balance of domains: what is issued next, as a fold of the log."""
