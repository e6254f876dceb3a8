"""Networks: the explainers of images and tables, and the parts that they share."""
