"""The access token that every request to a JobManager carries, if one is configured. Clients and JobManagers."""

from __future__ import annotations

from pathlib import Path

from flott.common import _cluster_options as options
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError


def access_token_of(configuration: Configuration) -> str | None:
    """Return the token of the configuration or of its file; refuse one that no request can carry."""
    token = configuration.get(options.REST_TOKEN)
    file = configuration.get(options.REST_TOKEN_FILE)
    if token is None and file is not None:
        try:
            token = Path(file).expanduser().read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"The token in flott.rest.token-file cannot be read: {error}.") from error
    if token is None:
        return None
    token = token.strip()
    if not token:
        raise ConfigurationError("The token of flott.rest.token or flott.rest.token-file is empty: everybody knows it.")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ConfigurationError(
            "The token of flott.rest.token or flott.rest.token-file is one line of ASCII letters, digits and signs"
            " without spaces; found something else in it. `openssl rand -hex 32` makes one."
        )
    return token
