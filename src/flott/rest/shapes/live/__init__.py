"""What pages show while jobs run: small answers that are asked for often. Flott's own; Flink has none of them."""
