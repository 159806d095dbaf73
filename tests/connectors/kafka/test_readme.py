"""The programs in the README run: the first as it stands, but in-process and with an end; the second on top of it.

The first reads Kafka, so they run here, where there is a broker.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from flott.datastream import StreamExecutionEnvironment
from flott.testing import in_process
from tests.servers.kafka import KafkaServer

README = Path(__file__).parents[3] / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXECUTE = 'env.execute("payments")\n'


def test_the_payments_are_added_up_and_looked_after_as_the_readme_says(
    broker: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rocksdict", reason="the second program keeps its state in RocksDB")
    payments = [("ada", 10), ("bob", 5), ("ada", 20)]
    messages = [json.dumps({"account": account, "amount": amount}).encode() for account, amount in payments]
    topic = broker.create_topic("payments")
    broker.produce(topic, messages)
    monkeypatch.chdir(tmp_path)
    env = in_process(parallelism=2)
    monkeypatch.setattr(StreamExecutionEnvironment, "get_execution_environment", lambda: env)

    program, looked_after = BLOCK.findall(README.read_text("utf-8"))
    assert program.endswith(EXECUTE), "it would never end: the second program starts it in another way"
    assert "localhost:9092" in program
    program = program.replace("localhost:9092", broker.address)
    exec(compile(program.removesuffix(EXECUTE) + looked_after, str(README), "exec"), {"__name__": "__main__"})

    printed = capsys.readouterr().out.splitlines()
    assert sorted(re.sub(r"^\d+> ", "", line) for line in printed) == [
        "('ada', 10)", "('ada', 30)", "('bob', 5)", "2 accounts, ada: 30",
    ]  # fmt: skip
    assert len(list((tmp_path / "savepoints").iterdir())) == 2
