"""What every part needs, without knowing IR: numpy when it is used, caches, budgets, text of numbers."""
