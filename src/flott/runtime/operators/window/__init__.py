"""Windows at run time: the general operator, and faster ones for the common kinds. Task side."""
