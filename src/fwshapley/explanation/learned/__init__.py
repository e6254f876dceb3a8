"""The explainer that learns: its surrogate and network, how a fit goes, and how good its values are."""
