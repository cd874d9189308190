"""Scoring history again: other verifiers over recorded rollouts, beside what was scored live."""
