"""A module as a graph of its float values: nodes, the roles of operands, float regions."""
