"""How object stores are reached: a value made of the configuration, which travels to tasks. Driver and task side."""

from __future__ import annotations

from dataclasses import dataclass, field

#: How the URIs of object stores begin.
SCHEMES = ("s3", "s3a", "az", "abfs", "abfss", "gs")


def is_object_location(location: str) -> bool:
    """Return whether a location is in an object store.

    >>> is_object_location("s3://bucket/folder"), is_object_location("/folder")
    (True, False)
    """
    scheme, separator, _ = location.partition("://")
    return bool(separator) and scheme.lower() in SCHEMES


def is_hdfs_location(location: str) -> bool:
    """Return whether a location is in HDFS.

    >>> is_hdfs_location("hdfs://namenode:8020/folder")
    True
    """
    return location[:7].lower() == "hdfs://"


@dataclass(frozen=True)
class ObjectStoreSettings:
    """Where object stores are, how long requests may take, and credentials if the configuration holds any.

    Without credentials each process finds its own in the chain of its platform: environment, profile, role of the
    machine. The text of a value never shows secrets.
    """

    endpoint: str | None = None
    region: str | None = None
    path_style: bool = False
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    request_timeout_ms: int = 30_000
    retry_timeout_ms: int = 120_000

    @property
    def allows_http(self) -> bool:
        """Whether requests may go unencrypted: only if the endpoint says so."""
        return self.endpoint is not None and self.endpoint.lower().startswith("http://")

    def without_secrets(self, text: str) -> str:
        """Return a text in which no secret of these settings stands.

        >>> ObjectStoreSettings(secret_key="hush").without_secrets("refused: hush")
        'refused: ******'
        """
        for secret in (self.secret_key, self.session_token, self.access_key):
            if secret:
                text = text.replace(secret, "******")
        return text
