"""Which records may be handed to another task as they are: those that cannot change. Pure. Task side.

A record that is encoded arrives as a copy. One that is handed over is the same object for sender and receiver, who save
their state at different moments: were it changed in between, by a function that keeps it in its state, a checkpoint
would hold a value from behind its barrier. So only values that cannot change are shared.
"""

from __future__ import annotations

from flott.common._immutability import cannot_change as cannot_change
