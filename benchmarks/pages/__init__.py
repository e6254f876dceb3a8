"""The results pages: Markdown templates, and the numbers that fill them."""
