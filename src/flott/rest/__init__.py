"""Serve Flink's REST API over a ``ClusterGateway``. JobManager side.

Endpoints are tables, responses are plain dictionaries. The package needs the extra ``cluster`` (starlette, uvicorn,
pydantic, python-multipart).
"""
