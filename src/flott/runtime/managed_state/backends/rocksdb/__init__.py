"""The RocksDB backend: working state in a database on the executor's local disk, for state larger than memory.

The database is a private copy: what is durable are the state files, which are the same for every backend. It holds
*committed* state only. Changes of the running epoch stay in memory and, when there are too many, in rows of their own;
they become part of the database when the next epoch begins and their checkpoint is known to be complete. So a failed
epoch leaves no trace in it, and bringing a copy up to date is the same everywhere: apply the files it has missed.
"""
