"""Flink's SQL as text: lexer, syntax tree, parsers and printer. It resolves no names and knows no catalog."""
