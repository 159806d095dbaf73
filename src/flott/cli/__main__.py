"""Run the command line by ``python -m flott.cli``, if the script ``flott`` is not on the path."""

from flott.cli import main

if __name__ == "__main__":
    main()
