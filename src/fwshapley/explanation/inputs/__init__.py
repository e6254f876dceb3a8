"""What users pass: inputs and models in every form, checked and read once."""
