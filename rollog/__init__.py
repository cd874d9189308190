"""The conductor: wires the parts into services and commands. Nothing imports it."""
