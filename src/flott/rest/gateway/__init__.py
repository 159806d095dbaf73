"""Serve Flink's SQL gateway over HTTP: sessions, statements and their results by pages.

``sessions`` and ``operation`` hold what runs, ``pages`` buffers rows, ``shapes`` and ``logical_types`` are pure, and
``endpoints`` is the table of paths.
"""
