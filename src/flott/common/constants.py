"""Numbers that PyFlink programs import by name."""

MAX_LONG_VALUE = 2**63 - 1
MIN_LONG_VALUE = -(2**63)

#: The tag of the main output, next to which side outputs have names of their own.
DEFAULT_OUTPUT_TAG = ""
