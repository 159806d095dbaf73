"""The responses of the REST API: their types, and pure functions that build them from views of the cluster.

Names, spelling and units are Flink's, so that its command line and dashboard can read them. Three conventions of its
API apply throughout: a time that has not been reached is -1 in ``end-time`` and 0 in ``timestamps``; a number that is
not finite is the text "NaN"; a field of Flott's own is an additional field that Flink's clients ignore.
"""
