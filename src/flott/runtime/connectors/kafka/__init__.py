"""The runtime half of the Kafka connector: what asks, reads and writes brokers, with confluent-kafka (librdkafka)."""
