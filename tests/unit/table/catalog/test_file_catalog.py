"""A catalog of files: what one session defines, another one finds."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from flott.table._catalog.catalog_table import (
    CatalogFunction,
    CatalogTable,
    CatalogView,
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    TableSchema,
    WatermarkSpec,
)
from flott.table._catalog.in_memory import CatalogError, StoredCatalog
from flott.table._catalog.kinds import make_catalog
from flott.table._types import logical as types

TABLE = CatalogTable(
    TableSchema(
        (
            PhysicalColumn("id", types.BIGINT.as_nullable(False), "the key"),
            PhysicalColumn("r", types.row_type({"x y": types.ArrayType(types.DecimalType(10, 2)), "`": types.STRING})),
            PhysicalColumn("at", types.TimestampType(3)),
            PhysicalColumn("span", types.DayTimeIntervalType()),
            ComputedColumn("double", "`id` * 2"),
            MetadataColumn("offset", types.BIGINT, "offset", virtual=True),
        ),
        WatermarkSpec("at", "`at` - INTERVAL '5' SECOND"),
        ("id",),
        "pk",
    ),
    {"connector": "kafka", "properties.sasl.password": "x"},
    ("id",),
    "a table",
)
VIEW = CatalogView("SELECT `id` FROM `c`.`d`.`t`", ("i",), "a view", "SELECT id FROM t")


def opened(path: Path) -> StoredCatalog:
    return make_catalog("c", {"type": "file", "path": str(path), "default-database": "d"})


def test_definitions_outlive_the_session(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    catalog.put_table("d", "t", TABLE, ignore_if_exists=False, replace=False)
    catalog.put_table("d", "v", VIEW, ignore_if_exists=False, replace=False)
    catalog.put_function("d", "f", CatalogFunction("module.function"), ignore_if_exists=False)
    catalog.create_database("other/../x", {"k": "v"}, "a comment", ignore_if_exists=False)
    again = opened(tmp_path)
    assert again.database("d").tables == {"t": TABLE, "v": VIEW}
    assert again.database("d").functions == {"f": CatalogFunction("module.function")}
    assert (again.database("other/../x").properties, again.database("other/../x").comment) == ({"k": "v"}, "a comment")
    again.drop_table("d", "t")
    again.drop_database("other/../x", ignore_if_missing=False, cascade=False)
    last = opened(tmp_path)
    assert list(last.databases) == ["d"]
    assert list(last.database("d").tables) == ["v"]


def test_files_are_readable_for_their_owner_only(tmp_path: Path) -> None:
    opened(tmp_path).put_table("d", "t", TABLE, ignore_if_exists=False, replace=False)
    [file] = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_session_does_not_overwrite_what_another_has_changed(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path)
    one.put_table("d", "t", TABLE, ignore_if_exists=False, replace=False)
    with pytest.raises(CatalogError, match="repeat the statement"):
        other.put_table("d", "v", VIEW, ignore_if_exists=False, replace=False)
    assert list(other.database("d").tables) == ["t"]
    other.put_table("d", "v", VIEW, ignore_if_exists=False, replace=False)
    assert sorted(opened(tmp_path).database("d").tables) == ["t", "v"]


@pytest.mark.parametrize("text", ["", "[]", '{"version": 1}', '{"version": 99, "tables": {}}'])
def test_a_file_that_holds_no_definitions_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "d.json").write_text(text)
    with pytest.raises(CatalogError, match=r"d\.json"):
        opened(tmp_path)


def test_a_catalog_of_files_needs_a_folder(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="needs the option 'path'"):
        make_catalog("c", {"type": "file"})
    with pytest.raises(CatalogError, match="generic_in_memory, file"):
        make_catalog("c", {"type": "fiel"})
    (tmp_path / "taken").write_text("")
    with pytest.raises(CatalogError, match="cannot use the folder"):
        opened(tmp_path / "taken")
