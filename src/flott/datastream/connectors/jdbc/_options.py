"""How to reach a database, and how to write to it: PyFlink's option classes. Plain values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from flott.common._secrets import HIDDEN, without_secrets
from flott.datastream.connectors.jdbc._address import Address, parse_url
from flott.errors import ProgramError


@dataclass(frozen=True, repr=False)
class JdbcConnectionOptions:
    """Where a database is and who connects. The password appears in no text.

    >>> JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:postgresql://db/shop") \\
    ...     .with_user_name("writer").with_password("secret").build()
    JdbcConnectionOptions(url='jdbc:postgresql://db/shop', user_name='writer', password='******')
    """

    url: str
    user_name: str | None = None
    password: str | None = None
    driver_name: str | None = None
    connect_timeout_seconds: int = 10
    statement_timeout_seconds: int = 60
    address: Address = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", parse_url(self.url))

    def get_db_url(self) -> str:
        return self.url

    def get_driver_name(self) -> str | None:
        return self.driver_name

    def get_user_name(self) -> str | None:
        return self.user_name or self.address.user_name

    def get_password(self) -> str | None:
        return self.password or self.address.password

    def hide(self, text: str) -> str:
        """Return a text of a driver's with the password hidden."""
        return without_secrets(text, self.password, self.address.password)

    def __repr__(self) -> str:
        password = "" if self.get_password() is None else f", password={HIDDEN!r}"
        return f"JdbcConnectionOptions(url={self.hide(self.url)!r}, user_name={self.user_name!r}{password})"

    class JdbcConnectionOptionsBuilder:
        """Collects the options."""

        def __init__(self) -> None:
            self._url: str | None = None
            self._user_name: str | None = None
            self._password: str | None = None
            self._driver_name: str | None = None
            self._connect_timeout = JdbcConnectionOptions.connect_timeout_seconds
            self._statement_timeout = JdbcConnectionOptions.statement_timeout_seconds

        def with_url(self, url: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the address: jdbc:postgresql://…, jdbc:mysql://…, jdbc:mariadb://… or jdbc:sqlite:/path."""
            self._url = url
            return self

        def with_driver_name(self, driver_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Accept the name of a Java class, for ported programs. The URL says which Python driver is used."""
            self._driver_name = driver_name
            return self

        def with_user_name(self, user_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set who connects."""
            self._user_name = user_name
            return self

        def with_password(self, password: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the password."""
            self._password = password
            return self

        def with_connect_timeout_seconds(self, seconds: int) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set how long the server may take to accept a connection. The default is 10 seconds."""
            self._connect_timeout = _at_least(1, seconds, "A connect time-out")
            return self

        def with_statement_timeout_seconds(self, seconds: int) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set how long one statement may take, also over a network that stalls. The default is 60 seconds."""
            self._statement_timeout = _at_least(1, seconds, "A statement time-out")
            return self

        def build(self) -> JdbcConnectionOptions:
            """Return the options."""
            if self._url is None:
                raise ProgramError("The connection options have no URL. Call with_url('jdbc:postgresql://host/db').")
            return JdbcConnectionOptions(
                self._url,
                self._user_name,
                self._password,
                self._driver_name,
                self._connect_timeout,
                self._statement_timeout,
            )


@dataclass(frozen=True)
class JdbcExecutionOptions:
    """How records are put into statements.

    >>> JdbcExecutionOptions.builder().with_batch_size(1000).build()
    JdbcExecutionOptions(batch_size=1000, batch_interval_ms=0, max_retries=3)
    """

    batch_size: int = 5000
    batch_interval_ms: int = 0
    max_retries: int = 3

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """Return 5000 records in a batch and three retries."""
        return JdbcExecutionOptions()

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        """Start building."""
        return JdbcExecutionOptions.Builder()

    def get_batch_interval_ms(self) -> int:
        return self.batch_interval_ms

    def get_batch_size(self) -> int:
        return self.batch_size

    def get_max_retries(self) -> int:
        return self.max_retries

    class Builder:
        """Collects the options."""

        def __init__(self) -> None:
            self._options = JdbcExecutionOptions()

        def with_batch_size(self, size: int) -> JdbcExecutionOptions.Builder:
            """Set after how many records a batch is written."""
            self._options = replace(self._options, batch_size=_at_least(1, size, "A batch size"))
            return self

        def with_batch_interval_ms(self, interval_ms: int) -> JdbcExecutionOptions.Builder:
            """Accept an interval, for ported programs: a batch is written at the end of its epoch at the latest."""
            self._options = replace(self._options, batch_interval_ms=_at_least(0, interval_ms, "A batch interval"))
            return self

        def with_max_retries(self, max_retries: int) -> JdbcExecutionOptions.Builder:
            """Set how often a batch is written again after a lost connection, before the epoch fails."""
            self._options = replace(self._options, max_retries=_at_least(0, max_retries, "A number of retries"))
            return self

        def build(self) -> JdbcExecutionOptions:
            """Return the options."""
            return self._options


def _at_least(lowest: int, found: int, what: str) -> int:
    if found < lowest:
        raise ProgramError(f"{what} is at least {lowest}, found {found}.")
    return found
