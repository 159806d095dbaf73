"""Catalogs, modules and plans as programs use them through an environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from flott.errors import ProgramError
from flott.table import (
    DataTypes,
    EnvironmentSettings,
    PlanReference,
    Schema,
    TableDescriptor,
    TableEnvironment,
    TableSchema,
)
from flott.table.catalog import CatalogBaseTable, CatalogDatabase, CatalogFunction, Column, ObjectPath, ResolvedSchema


@pytest.fixture
def t_env() -> TableEnvironment:
    return TableEnvironment.create(EnvironmentSettings.in_streaming_mode())


def test_a_catalog_holds_databases_tables_and_functions(t_env: TableEnvironment) -> None:
    catalog = t_env.get_catalog("default_catalog")
    assert catalog is not None
    assert t_env.get_catalog("other") is None
    catalog.create_database("d", CatalogDatabase.create_instance({"k": "v"}, "why"), ignore_if_exists=False)
    assert catalog.list_databases() == ["d", "default_database"]
    assert catalog.get_database("d").get_properties() == {"k": "v"}

    path = ObjectPath("d", "t")
    schema = TableSchema(["a"], [DataTypes.INT()])
    table = CatalogBaseTable.create_table(schema, properties={"connector": "blackhole"})
    catalog.create_table(path, table, ignore_if_exists=False)
    assert catalog.list_tables("d") == ["t"]
    assert catalog.get_table(path).get_options() == {"connector": "blackhole"}
    t_env.execute_sql("CREATE VIEW d.v AS SELECT 1 AS x")
    assert catalog.list_views("d") == ["v"]
    catalog.rename_table(path, "u", ignore_if_not_exists=False)
    assert [catalog.table_exists(path), catalog.table_exists(ObjectPath("d", "u"))] == [False, True]
    with pytest.raises(ProgramError, match="There is no table"):
        catalog.drop_table(path, ignore_if_not_exists=False)

    function = ObjectPath("d", "f")
    catalog.create_function(function, CatalogFunction.create_instance("m.f"), ignore_if_exists=False)
    assert catalog.get_function(function).get_class_name() == "m.f"
    assert t_env.drop_function("d.f")
    assert not t_env.drop_function("d.f")
    with pytest.raises(ProgramError, match="hold no partitions"):
        catalog.list_partitions(path)


def test_a_plan_is_compiled_stored_and_loaded(t_env: TableEnvironment, tmp_path: Path) -> None:
    declared = Schema.new_builder().column("a", "INT").build()
    sink = TableDescriptor.for_connector("blackhole").schema(declared).build()
    t_env.create_temporary_table("sink", sink)
    plan = t_env.compile_plan_sql("INSERT INTO sink SELECT 1 AS a")
    plan.write_to_file(tmp_path / "plan.json")
    again = t_env.load_plan(PlanReference.from_file(tmp_path / "plan.json"))
    assert again.as_json_string() == plan.as_json_string()
    assert "sink" in again.explain()
    with pytest.raises(ProgramError, match="stores compiled plans as JSON"):
        PlanReference.from_smile_bytes(b"")


def test_sql_stores_plans_and_runs_them(t_env: TableEnvironment, tmp_path: Path) -> None:
    t_env.execute_sql("CREATE TABLE sink (a INT) WITH ('connector' = 'blackhole')")
    file = tmp_path / "plan.json"
    t_env.execute_sql(f"COMPILE PLAN '{file}' FOR INSERT INTO sink SELECT 1 AS a")
    assert '"INSERT INTO sink SELECT 1 AS a"' in file.read_text()
    t_env.execute_sql(f"COMPILE PLAN '{file}' IF NOT EXISTS FOR INSERT INTO sink SELECT 2 AS a")
    assert "SELECT 1" in file.read_text()
    with pytest.raises(ProgramError, match="exists"):
        t_env.execute_sql(f"COMPILE PLAN '{file}' FOR INSERT INTO sink SELECT 2 AS a")
    with pytest.raises(ProgramError, match="There is no file"):
        t_env.execute_sql(f"EXECUTE PLAN '{tmp_path}/other.json'")


def test_there_is_one_module(t_env: TableEnvironment) -> None:
    assert [(entry.name(), entry.used()) for entry in t_env.list_full_modules()] == [("core", True)]
    t_env.use_modules("core")
    with pytest.raises(ProgramError, match="one module"):
        t_env.use_modules("hive")
    with pytest.raises(ProgramError, match="write it in Python"):
        t_env.create_java_function("f", "a.B")


def test_a_schema_tells_which_columns_are_written() -> None:
    schema = ResolvedSchema.of(
        [
            Column.physical("a", DataTypes.INT()),
            Column.computed("b", "a + 1", DataTypes.INT()),
            Column.metadata("m", DataTypes.BIGINT(), "offset", True),
        ]
    )
    assert str(schema) == "(\n  `a` INT,\n  `b` INT AS a + 1,\n  `m` BIGINT METADATA FROM 'offset' VIRTUAL\n)"
    assert schema.to_source_row_data_type().field_names() == ["a", "b", "m"]
    assert schema.to_sink_row_data_type().field_names() == ["a"]


def test_tables_without_a_name_of_the_users_appear_in_no_list_and_no_message(t_env: TableEnvironment) -> None:
    elements = t_env.from_elements([(1, "a")], ["id", "name"])
    t_env.create_temporary_view("named", elements)
    with t_env.execute_sql("SHOW TABLES").collect() as rows:
        assert [row[0] for row in rows] == ["named"]
    assert t_env.list_tables() == t_env.list_views() == t_env.list_temporary_views() == ["named"]
    with pytest.raises(ProgramError, match="There is: named\\."):
        t_env.sql_query("SELECT * FROM missing")
