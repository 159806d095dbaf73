"""Settings with which a table environment is made."""

from __future__ import annotations

from flott.common.configuration import Configuration

__all__ = ["EnvironmentSettings"]

_MODE = "execution.runtime-mode"


class EnvironmentSettings:
    """Streaming or batch, the names of the first catalog and database, and options.

    >>> EnvironmentSettings.in_batch_mode().is_streaming_mode()
    False
    """

    def __init__(
        self,
        configuration: Configuration,
        catalog_name: str = "default_catalog",
        database_name: str = "default_database",
    ) -> None:
        self._configuration = configuration
        self._catalog_name = catalog_name
        self._database_name = database_name

    def get_built_in_catalog_name(self) -> str:
        """Return the name of the catalog that is there from the start."""
        return self._catalog_name

    def get_built_in_database_name(self) -> str:
        """Return the name of the database that is there from the start."""
        return self._database_name

    def is_streaming_mode(self) -> bool:
        """Return whether queries run as streams."""
        return self._configuration.get_string(_MODE, "STREAMING").upper() != "BATCH"

    def get_configuration(self) -> Configuration:
        """Return the options."""
        return self._configuration

    @staticmethod
    def new_instance() -> EnvironmentSettings.Builder:
        """Return a builder."""
        return EnvironmentSettings.Builder()

    @staticmethod
    def in_streaming_mode() -> EnvironmentSettings:
        """Return settings with which queries run as streams."""
        return EnvironmentSettings.new_instance().in_streaming_mode().build()

    @staticmethod
    def in_batch_mode() -> EnvironmentSettings:
        """Return settings with which queries run over bounded tables."""
        return EnvironmentSettings.new_instance().in_batch_mode().build()

    class Builder:
        """Collects settings."""

        def __init__(self) -> None:
            self._configuration = Configuration()
            self._catalog_name = "default_catalog"
            self._database_name = "default_database"

        def with_configuration(self, config: Configuration) -> EnvironmentSettings.Builder:
            """Add options."""
            self._configuration.add_all(config)
            return self

        def in_batch_mode(self) -> EnvironmentSettings.Builder:
            """Run queries over bounded tables."""
            self._configuration.set_string(_MODE, "BATCH")
            return self

        def in_streaming_mode(self) -> EnvironmentSettings.Builder:
            """Run queries as streams."""
            self._configuration.set_string(_MODE, "STREAMING")
            return self

        def with_built_in_catalog_name(self, built_in_catalog_name: str) -> EnvironmentSettings.Builder:
            """Name the catalog that is there from the start."""
            self._catalog_name = built_in_catalog_name
            return self

        def with_built_in_database_name(self, built_in_database_name: str) -> EnvironmentSettings.Builder:
            """Name the database that is there from the start."""
            self._database_name = built_in_database_name
            return self

        def build(self) -> EnvironmentSettings:
            """Return the settings."""
            return EnvironmentSettings(self._configuration, self._catalog_name, self._database_name)
