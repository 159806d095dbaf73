"""The kinds of state tables: what one named state holds, and what an epoch changed in it. Task side."""
