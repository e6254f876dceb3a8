"""Training of every network of the package: one loop on accelerate, budgets in seconds or steps, checkpoints."""
