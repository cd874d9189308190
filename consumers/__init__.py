"""Only reads: the reader, and what is made of reading."""
