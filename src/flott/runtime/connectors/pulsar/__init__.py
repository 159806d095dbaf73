"""Pulsar through pulsar-client: what the specifications in ``flott.datastream.connectors.pulsar`` create."""
