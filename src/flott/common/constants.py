"""Constants that PyFlink programs import by name."""

MAX_LONG_VALUE = 2**63 - 1
MIN_LONG_VALUE = -(2**63)

#: The tag of the main output. Side outputs have their own names.
DEFAULT_OUTPUT_TAG = ""
