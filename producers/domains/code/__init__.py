"""Programs that are run on inputs which they have not seen."""
