"""Snapshots as tables: the implementation behind ``flott.state``, which is the module that users import.

It reads, compares, creates and changes checkpoints and savepoints without the job and its classes.
"""
