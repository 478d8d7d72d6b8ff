"""Elements of tensors as arrays, and what functions that run ops of several dialects share."""
