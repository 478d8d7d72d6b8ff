"""Sums of products: the ops of each dialect that compute one, and the roles of their axes."""
