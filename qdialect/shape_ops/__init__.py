"""Which movement an op is: the interface, and a file for each dialect."""
