"""Equalization of the inputs and weights of layers: factors, a plan, and its writing."""
