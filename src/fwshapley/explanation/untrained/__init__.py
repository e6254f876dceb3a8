"""Explainers that train nothing: closed forms, all coalitions of few players, sampled ones of many."""
