"""Shared by all modules, not for users: checks of arguments, files, parallel work, HTML pages."""
