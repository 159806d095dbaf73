"""NATS JetStream through nats-py: what the specifications in ``flott.datastream.connectors.nats`` create."""
