"""The ops of float models that are no shape ops, computed with numpy, by the names of ops."""
