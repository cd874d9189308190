"""A range of the log's past as finished rollouts, read in bounded memory."""
