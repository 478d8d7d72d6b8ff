"""Keys of values, their recorded ranges, and the functions that are recorded."""
