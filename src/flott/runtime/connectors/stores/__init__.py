"""Writes to key-value and document stores: buffers, requests, retries, and the answers to single changes. Task side.

records ─► Action (key, body) ─► ChangeBuffer (last change of each key) ─► requests ─► ActionOutcome of each action
                                                                             │  RETRY: sent again, with back-off
                                                                             │  SUPERSEDED: newer is there, fine
                                                                             └─ REJECTED: fail, skip, dead letter
"""
