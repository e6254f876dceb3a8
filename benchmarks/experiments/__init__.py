"""One module for each table or figure: `parse` reads its options, `main` measures, records and draws."""
