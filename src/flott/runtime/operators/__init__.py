"""What runs per record: one file per kind of operator. Task side."""
