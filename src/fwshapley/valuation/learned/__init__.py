"""Values predicted by a network: in one pass, also of new points, without the training set."""
