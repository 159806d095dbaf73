"""Methods of environments about catalogs, modules and compiled plans, and those that are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, cast

from flott.errors import ProgramError
from flott.table._catalog.kinds import make_catalog
from flott.table._environment.session import SqlSession
from flott.table._sql.parser import parse_statement
from flott.table._sql.print_expressions import print_name
from flott.table.catalog._catalog import Catalog
from flott.table.compiled_plan import CompiledPlan
from flott.table.module import Module, ModuleEntry
from flott.table.plan_reference import FilePlanReference, JsonContentPlanReference, PlanReference
from flott.table.table import table_name

if TYPE_CHECKING:
    from flott.table._session import TableSession
    from flott.table.catalog import CatalogDescriptor
    from flott.table.table_result import TableResult


def _refused(reason: str) -> Any:
    def refuse(self: EnvironmentMethods, *arguments: Any, **options: Any) -> NoReturn:
        raise ProgramError(f"{reason}. See docs/porting.md.")

    refuse.__doc__ = f"Refused: {reason}."
    return refuse


_JAVA = "The function is a Java class; write it in Python, and use create_temporary_function()"
_MODELS = "Flott runs no models; call one in a function in Python"
_MODULES = "Flott has one module of functions, 'core'"


class EnvironmentMethods:
    """What ``TableEnvironment`` offers beside statements and tables."""

    _session: SqlSession

    # --- catalogs ---------------------------------------------------------------------------------------------------

    def create_catalog(self, catalog_name: str, catalog_descriptor: CatalogDescriptor) -> None:
        """Make a catalog of the options of a descriptor, such as its type, and register it."""
        options = catalog_descriptor.configuration
        to_dict = getattr(options, "to_dict", None)
        self._session.catalogs.register(
            catalog_name, make_catalog(catalog_name, dict(to_dict() if to_dict else options))
        )

    def register_catalog(self, catalog_name: str, catalog: Catalog) -> None:
        """Add a catalog under a name."""
        self._session.catalogs.register(catalog_name, catalog.held)

    def get_catalog(self, catalog_name: str) -> Catalog | None:
        """Return a catalog; None if there is none of the name."""
        held = self._session.catalogs.catalogs.get(catalog_name)
        return None if held is None else Catalog(held)

    def list_materialized_tables(self) -> list[str]:
        """Return an empty list: there are no materialized tables."""
        return []

    def drop_function(self, path: str) -> bool:
        """Remove a function from its catalog; return whether it was there."""
        name = table_name(path)
        if self._session.catalogs.find_function(name) is None:
            return False
        cast("TableSession", self).execute_statement(parse_statement(f"DROP FUNCTION {print_name(name)}"))
        return True

    # --- plans ------------------------------------------------------------------------------------------------------

    def compile_plan_sql(self, stmt: str) -> CompiledPlan:
        """Return the plan of an INSERT or a statement set as a value that can be stored and run later."""
        return CompiledPlan.of_statement(parse_statement(stmt), cast("TableSession", self))

    def load_plan(self, plan_reference: PlanReference) -> CompiledPlan:
        """Return a stored plan."""
        match plan_reference:
            case FilePlanReference():
                text = plan_reference.path.read_text(encoding="utf-8")
            case JsonContentPlanReference():
                text = plan_reference.content
            case _:
                raise ProgramError(
                    f"Found {plan_reference!r}, expected PlanReference.from_file() or from_json_string()"
                )
        return CompiledPlan.of_json(text, cast("TableSession", self))

    def execute_plan(self, plan_reference: PlanReference) -> TableResult:
        """Run a stored plan."""
        return self.load_plan(plan_reference).execute()

    # --- modules ----------------------------------------------------------------------------------------------------

    def list_full_modules(self) -> list[ModuleEntry]:
        """Return the loaded modules."""
        return [ModuleEntry("core", True)]

    def load_module(self, module_name: str, module: Module) -> None:
        """Refuse: there is one module of functions."""
        raise ProgramError(f"{_MODULES}, found {module_name!r}")

    def unload_module(self, module_name: str) -> None:
        """Refuse: the core module stays."""
        raise ProgramError(f"{_MODULES}, which cannot be unloaded")

    def use_modules(self, *module_names: str) -> None:
        """Use the core module, which is the only one."""
        if module_names != ("core",):
            raise ProgramError(f"{_MODULES}, found {', '.join(module_names)}")

    # --- what is not there --------------------------------------------------------------------------------------------

    create_java_function = _refused(_JAVA)
    create_java_temporary_function = _refused(_JAVA)
    create_java_temporary_system_function = _refused(_JAVA)
    create_model = _refused(_MODELS)
    create_temporary_model = _refused(_MODELS)
    drop_model = _refused(_MODELS)
    drop_temporary_model = _refused(_MODELS)
    list_models = _refused(_MODELS)
    list_temporary_models = _refused(_MODELS)
