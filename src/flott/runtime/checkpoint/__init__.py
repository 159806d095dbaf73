"""The durable protocol: plans, checkpoints, what to restore, what to delete. Driver side."""
