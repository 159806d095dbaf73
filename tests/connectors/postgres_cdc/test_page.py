"""The program of the page runs. Here it ends with the snapshot."""

from __future__ import annotations

from tests.connectors.pages import run_page
from tests.servers.postgres import PASSWORD, USER


def test_the_program_of_the_page_runs(database, execute, capfd):
    execute("CREATE TABLE orders (id int PRIMARY KEY, item text)")
    execute("INSERT INTO orders VALUES (1, 'tea'), (2, 'jam')")
    run_page(
        "postgres-cdc.md",
        {
            '"localhost"': '"127.0.0.1"',
            "5432": str(database.server.port),
            '"shop"': f'"{database.name}"',
            '"flott"': f'"{USER}"',
            '"secret"': f'"{PASSWORD}"',
            "import PostgresSource": "import PostgresSource, StartupOptions",
            '.slot_name("orders_job")': ".startup_options(StartupOptions.snapshot())",
        },
    )
    shown = capfd.readouterr().out
    assert "+I {'id': 1, 'item': 'tea'}" in shown
    assert "+I {'id': 2, 'item': 'jam'}" in shown
