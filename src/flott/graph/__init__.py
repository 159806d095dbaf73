"""The contract between the API and the runtime: a program as plain, immutable data.

    Program (transformations) --translate--> StreamGraph --chain--> JobGraph

Everything here is a frozen value or a pure function. Nothing here runs, opens or imports user-facing API classes at
run time.
"""
