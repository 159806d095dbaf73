"""What a client shows to a server: the access token, and certificates for TLS. Client side."""

from __future__ import annotations

import ssl

from flott.common import _cluster_options as options
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError
from flott.runtime.jobmanager.access_token import access_token_of


def access_headers(configuration: Configuration) -> dict[str, str]:
    """Return the headers that show the access token of REST, if there is one."""
    token = access_token_of(configuration)
    return {"Authorization": f"Bearer {token}"} if token else {}


def tls_context(configuration: Configuration) -> ssl.SSLContext:
    """Return how a client checks the certificate of a server, and which one it shows itself."""
    ca = configuration.get(options.REST_TLS_CA)
    certificate = configuration.get(options.REST_TLS_CERTIFICATE)
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate:
            context.load_cert_chain(certificate, configuration.get(options.REST_TLS_KEY))
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"The files of flott.rest.ssl.* (ca {ca}, certificate {certificate}) cannot be used: {error}."
        ) from error
    return context


def no_tls_context() -> ssl.SSLContext:
    """Return a context for a client without TLS; it loads no certificate authorities, which takes long."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
