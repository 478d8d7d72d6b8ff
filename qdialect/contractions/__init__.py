"""Which ops of each dialect are sums of products, and what the axes of their operands are for."""
