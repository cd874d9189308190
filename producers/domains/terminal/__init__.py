"""Work in a shell, turn by turn."""
