"""``python -m flott.cli``: the command line where the script ``flott`` is not on the path."""

from flott.cli import main

if __name__ == "__main__":
    main()
