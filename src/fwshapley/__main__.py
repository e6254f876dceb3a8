"""`python -m fwshapley`: the command, where it is not on the path."""

from fwshapley.cli import app

if __name__ == "__main__":
    app(prog_name="fwshapley")
