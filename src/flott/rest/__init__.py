"""Flink's REST API over a ``ClusterGateway``: endpoints as tables, replies as plain dictionaries. JobManager side.

Needs the extra ``cluster`` (starlette, uvicorn, pydantic, python-multipart).
"""
