"""Clients of Amazon's services, and what their errors mean. Driver and task side."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from flott._extras import require
from flott.common._secrets import Properties, without_secrets
from flott.errors import ConnectorError, FlottError, ProgramError

#: Codes of errors that the program or its credentials cause.
REFUSED = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthFailure",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
MISSING = frozenset(
    {"ResourceNotFoundException", "AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist", "NonExistentQueue"}
)
#: Delays before what a service refused for the moment is sent again; then the epoch fails.
RESEND_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


def client(service: str, properties: Mapping[str, str], extra: str) -> Any:
    """Return a client of a service, the same one for the same properties: it is safe for threads, and expensive."""
    return _client(service, Properties(properties), extra, os.getpid())


@lru_cache(maxsize=64)
def _client(service: str, properties: Properties, extra: str, process: int) -> Any:
    """Return a new client. All its time-outs are bounded."""
    boto3 = require("boto3", extra=extra)
    config = require("botocore.config", extra=extra).Config(
        connect_timeout=10, read_timeout=30, retries={"max_attempts": 4, "mode": "standard"}, max_pool_connections=16
    )
    basic = "aws.credentials.provider.basic."
    try:
        session = boto3.session.Session(
            aws_access_key_id=properties.get(f"{basic}accesskeyid"),
            aws_secret_access_key=properties.get(f"{basic}secretkey"),
            aws_session_token=properties.get(f"{basic}sessiontoken"),
            profile_name=properties.get("aws.credentials.provider.profile.name"),
            region_name=properties.get("aws.region"),
        )
        return session.client(
            service, endpoint_url=properties.get("aws.endpoint"), verify=properties.get("aws.ca-bundle"), config=config
        )
    except Exception as error:
        raise ProgramError(
            f"There is no client of {service}: {error} Set aws.region, and aws.credentials.provider.basic.* unless the"
            " environment has credentials."
        ) from error


@contextmanager
def explained(doing: str, properties: Mapping[str, str]) -> Iterator[None]:
    """Turn errors of the library into those of Flott, without secrets."""
    try:
        yield
    except FlottError:
        raise
    except Exception as error:
        secrets = properties.secrets() if isinstance(properties, Properties) else ()
        raise explain(error, doing, secrets) from None


def error_code(error: BaseException) -> str:
    """Return the code with which a service refused a request; empty if it did not answer."""
    return str((getattr(error, "response", None) or {}).get("Error", {}).get("Code", ""))


def explain(error: BaseException, doing: str, secrets: Sequence[str] = ()) -> FlottError:
    """Return what an error of the library means."""
    code, text = error_code(error), without_secrets(str(error), *secrets)
    if code in REFUSED or type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError"):
        return ProgramError(f"{doing}: refused ({text}). Check the credentials and their permissions.")
    if code in MISSING:
        return ProgramError(f"{doing}: not found ({text}). Check name and region, or create it first.")
    return ConnectorError(f"{doing}: {type(error).__name__}: {text}")


def send_all(entries: Sequence[Any], send: Callable[[Sequence[Any]], list[tuple[Any, str]]], doing: str) -> None:
    """Send entries. ``send`` returns those that were refused, with the reason: they are sent again, with delays."""
    left = entries
    for delay in (*RESEND_SECONDS, None):
        refused = send(left)
        if not refused:
            return
        if delay is None:
            raise ConnectorError(f"{doing}: {len(refused)} of {len(entries)} records were refused: {refused[0][1]}.")
        left = [entry for entry, _ in refused]
        time.sleep(delay)
