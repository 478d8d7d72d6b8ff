"""The command line tool, and the parts of it that other tools may use."""
