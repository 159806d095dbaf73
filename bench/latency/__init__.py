"""How long a record needs from its source to a sink, in Flott and in its peers: `python -m bench --only latency`."""
