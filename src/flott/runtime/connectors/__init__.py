"""Enumerators, readers, writers and committers; the only room that imports client libraries such as pyarrow."""
