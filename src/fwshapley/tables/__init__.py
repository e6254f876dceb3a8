"""Tables: reading files, what each column holds, and columns as numbers for models and for nearest neighbors."""
