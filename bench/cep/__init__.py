"""Patterns: Flott's CEP, a hand-written KeyedProcessFunction in Flott, and Flink's CEP in Java."""
