"""Sums of products: the ops of each dialect that are one, and the roles of their axes."""
