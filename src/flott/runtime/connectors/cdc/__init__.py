"""Change data capture: what plans and reads the sources of ``flott.datastream.connectors.*_cdc``."""
