"""The dialect tensor."""
