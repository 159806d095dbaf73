"""``python -m bench.bare_server``: answers every request with the same JSON, and prints its port first.

The floor for the control plane: the web framework and the server it has, with nothing behind them.
"""

from __future__ import annotations

import socket

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

#: As much as a session's overview says.
ANSWER = {f"number-{n}": n for n in range(12)}


async def answer(request: Request) -> JSONResponse:
    return JSONResponse(ANSWER)


def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections inherit it
    print(listening.getsockname()[1], flush=True)
    app = Starlette(routes=[Route("/{path:path}", answer)])
    config = uvicorn.Config(app, http="h11", ws="none", lifespan="off", log_config=None, access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
