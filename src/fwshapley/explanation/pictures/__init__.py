"""Pictures of an attribution: which rows, outputs and players they show. `fwshapley.plots` draws them."""
