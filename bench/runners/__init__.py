"""One module per engine, and one more where a workload has a method of its own (`_state`, `flott_restore` ...).

Each runs in a process of its own and prints one JSON line. None imports another engine's.
"""
