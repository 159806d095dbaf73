"""The replies of the REST API: what each looks like, and pure functions that make them from views of the cluster.

Names, spelling and units are Flink's, so that its command line and dashboard can read them. Three habits of its API
hold throughout: a time that has not come is -1 in ``end-time`` and 0 in ``timestamps``; a number that is none is the
text "NaN"; what is Flott's own is an additional field that Flink's clients skip.
"""
