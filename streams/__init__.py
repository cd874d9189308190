"""Events in, events out."""
