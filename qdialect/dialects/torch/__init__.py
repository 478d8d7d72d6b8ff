"""The dialect torch."""
