"""The program of the page runs. Here it ends with the snapshot."""

from __future__ import annotations

import pytest

from tests.connectors.pages import run_page
from tests.servers.mariadb import PASSWORD, USER

pytestmark = pytest.mark.connectors


def test_the_program_of_the_page_runs(database, execute, capfd):
    execute("CREATE TABLE orders (id int PRIMARY KEY, item varchar(9))")
    execute("INSERT INTO orders VALUES (1, 'tea'), (2, 'jam')")
    run_page(
        "mysql-cdc.md",
        {
            '"localhost"': '"127.0.0.1"',
            "3306": str(database.server.port),
            '"shop': f'"{database.name}',
            '"flott"': f'"{USER}"',
            '"secret"': f'"{PASSWORD}"',
            "import MySqlSource": "import MySqlSource, StartupOptions",
            ".server_id(5401)": ".startup_options(StartupOptions.snapshot())",
        },
    )
    shown = capfd.readouterr().out
    assert "+I {'id': 1, 'item': 'tea'}" in shown
    assert "+I {'id': 2, 'item': 'jam'}" in shown
