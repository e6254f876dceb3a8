"""The server of explanations: KServe's protocols, a page, and what surrounds each request."""
