"""Run a retained epoch again, in this process: same plan, state, clock and seed, so the same records come out.

Nothing of the job is touched: what the replay writes goes into a folder of its own, and no sink commits anything.
"""
