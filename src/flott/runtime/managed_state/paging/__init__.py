"""Tables over rows on disk: how entries are named, fetched when they are asked for, and put aside. Task side."""
