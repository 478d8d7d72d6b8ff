"""The command line tools, and the parts that they share."""
