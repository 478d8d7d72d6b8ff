"""The dialect linalg."""
