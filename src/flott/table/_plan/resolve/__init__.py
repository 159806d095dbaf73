"""From the syntax tree to the logical plan: names, types and functions are looked up, nothing runs."""
