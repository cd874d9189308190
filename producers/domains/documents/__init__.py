"""Reading, extracting, comparing and shortening texts."""
