"""The parts of columnar state: keys to slots, columns by slot. Only programs with tables import these modules."""
