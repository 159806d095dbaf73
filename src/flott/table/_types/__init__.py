"""The types of SQL: logical types, their Arrow form, and how they are inferred and converted."""
