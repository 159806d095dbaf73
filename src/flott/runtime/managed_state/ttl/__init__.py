"""Time to live of state: clocks, expiry, and handles that respect it. Task side."""
