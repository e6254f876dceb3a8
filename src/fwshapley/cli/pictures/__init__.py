"""Folders of pictures: read as arrays, labeled by their folders, and turned into features."""
