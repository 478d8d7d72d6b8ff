"""The ops of tm_tensor: its models, and functions that compute them."""
