"""Named ops of float models other than shape ops, computed with numpy. One file per dialect."""
