"""Which ops of each dialect have weights, and what the axes of these are for."""
