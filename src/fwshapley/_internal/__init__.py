"""What the whole package stands on: checks of arguments, files, parallel work, HTML pages. Not for users."""
