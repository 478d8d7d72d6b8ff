"""What every part needs without IR: numpy when it is used, caches, budgets, text of numbers."""
