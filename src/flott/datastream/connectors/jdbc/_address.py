"""Reads JDBC URLs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from urllib.parse import parse_qsl, unquote, urlsplit

from flott.common._secrets import without_secrets
from flott.errors import ProgramError


class Dialect(Enum):
    """The kind of database; the value is how messages call it."""

    POSTGRES = "PostgreSQL"
    MYSQL = "MySQL"  #: and MariaDB
    SQLITE = "SQLite"


_SCHEMES = {"postgresql": Dialect.POSTGRES, "postgres": Dialect.POSTGRES, "mysql": Dialect.MYSQL}
_SCHEMES |= {"mariadb": Dialect.MYSQL, "sqlite": Dialect.SQLITE}
_PORTS = {Dialect.POSTGRES: 5432, Dialect.MYSQL: 3306, Dialect.SQLITE: 0}


@dataclass(frozen=True)
class Address:
    """Where a database is. Several hosts are possible with PostgreSQL: the first one that answers is taken."""

    dialect: Dialect
    hosts: tuple[tuple[str, int], ...]
    database: str  #: for SQLite the path of the file
    parameters: tuple[tuple[str, str], ...] = ()
    user_name: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"Address({self})"

    def __str__(self) -> str:
        """Return the address for messages, without user and password."""
        if self.dialect is Dialect.SQLITE:
            return f"SQLite {self.database}"
        hosts = ",".join(f"{host}:{port}" for host, port in self.hosts)
        return f"{self.dialect.value} {hosts}/{self.database}"


def parse_url(url: str) -> Address:
    """Return what a URL says.

    >>> parse_url("jdbc:postgresql://db.example:5433/shop?sslmode=require")
    Address(PostgreSQL db.example:5433/shop)
    >>> parse_url("jdbc:sqlite:/var/lib/shop.db").database
    '/var/lib/shop.db'
    """
    shown = without_secrets(url)
    text = url.removeprefix("jdbc:")
    scheme, colon, rest = text.partition(":")
    dialect = _SCHEMES.get(scheme.lower())
    if dialect is None or not colon:
        raise ProgramError(
            f"Found the database URL {shown!r}, expected jdbc:postgresql://host:port/database,"
            " jdbc:mysql://host:port/database, jdbc:mariadb://host:port/database or jdbc:sqlite:/path/to/file."
        )
    if dialect is Dialect.SQLITE:
        return _sqlite(rest, shown)
    if not rest.startswith("//"):
        raise ProgramError(f"The database URL {shown!r} has no host. Write jdbc:{scheme}://host:port/database.")
    parts = urlsplit(text)
    login, _, places = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    database = unquote(parts.path.lstrip("/"))
    if not database:
        raise ProgramError(f"The database URL {shown!r} names no database. Write jdbc:{scheme}://host:port/database.")
    hosts = tuple(_host(place, _PORTS[dialect], shown) for place in (places or "localhost").split(","))
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    user, password = parameters.pop("user", unquote(user)), parameters.pop("password", unquote(password))
    return Address(dialect, hosts, database, tuple(parameters.items()), user or None, password or None)


def _sqlite(rest: str, shown: str) -> Address:
    path, _, query = rest.removeprefix("file:").partition("?")
    if path.startswith("///"):
        path = path[2:]
    if not path or path == ":memory:":
        raise ProgramError(
            f"Found the database URL {shown!r}, expected jdbc:sqlite:/path/to/file: driver and tasks are different"
            " processes, so they cannot share a database in memory."
        )
    return Address(Dialect.SQLITE, (), path, tuple(parse_qsl(query)))


def _host(place: str, default_port: int, shown: str) -> tuple[str, int]:
    host, colon, port = place.rpartition(":")
    if not colon or place.endswith("]"):
        return place.strip("[]") or "localhost", default_port
    if not port.isdecimal():
        raise ProgramError(f"The database URL {shown!r} has the port {port!r}, expected a number.")
    return host.strip("[]") or "localhost", int(port)
