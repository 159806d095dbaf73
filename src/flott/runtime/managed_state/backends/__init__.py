"""Where keyed state is stored while a subtask runs: in dictionaries, or in RocksDB. Task side."""
