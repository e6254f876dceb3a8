"""Texts: attributions that know their words, and how they are shown."""
