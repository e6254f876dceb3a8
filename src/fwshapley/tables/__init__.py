"""Tables: reading files, what each column contains, and columns as numbers for models and for nearest neighbors."""
