"""Patterns at run time: one pattern of the program, or rules that change while the job runs. Task side."""
