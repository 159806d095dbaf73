"""Windows over columns: which rows belong to which windows, when windows end, and what they add up to. Task side."""
