"""Tools that act on a small world, in which something has to be brought about."""
