"""Two domains of few words, which the demo's small policy can learn."""
