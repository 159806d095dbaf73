"""Kinesis and Firehose through boto3: what the specifications in ``flott.datastream.connectors.kinesis`` create."""
