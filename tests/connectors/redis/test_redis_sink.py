"""The Redis sink against a real server: exactly once for counters, lists and streams, whatever dies in between."""

from __future__ import annotations

import json
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from flott.common.types import Row, RowKind
from flott.datastream.connectors._stores import RetryPolicy
from flott.datastream.connectors.base import DeliveryGuarantee, OnError, WriterContext
from flott.datastream.connectors.redis import RedisCommand, RedisSink
from flott.errors import ConnectorError, ProgramError, StateError
from flott.testing.harness import in_process
from flott.testing.sinks import commit_permit
from tests.connectors.pages import run_page
from tests.servers.redis import RedisServer, redis_server

pytestmark = pytest.mark.connectors

IMPATIENT = RetryPolicy(max_attempts=2, initial_delay_ms=1, max_delay_ms=1)


def sink_of(redis: RedisServer, mapper: Any = None, **settings: Any) -> RedisSink:
    mapper = mapper or (lambda word: [RedisCommand.hincrby("counts", word, 1), RedisCommand.rpush("words", word)])
    return RedisSink(redis.url, mapper, **{"retries": IMPATIENT, "timeout_ms": 2000, **settings})


def context(epoch: int = 1, attempt: str = "a", subtask: int = 0, job: str = "job") -> WriterContext:
    return WriterContext(subtask, 2, epoch, attempt, job, "op", now_ms=0)


def stage(sink: RedisSink, values: list[Any], where: WriterContext) -> list[Any]:
    writer = sink.create_writer(where)
    writer.write(values, None)
    committables = writer.prepare_commit()
    writer.close()
    return json.loads(json.dumps(committables))


def committer_of(sink: RedisSink, job: str = "job") -> Any:
    committer = sink.create_committer()
    assert committer is not None
    committer.open(job, "op")
    return committer


def words(redis: RedisServer) -> list[bytes]:
    return redis.client.lrange("words", 0, -1)


def leftovers(redis: RedisServer) -> list[bytes]:
    return [key for key in redis.client.keys("flott:*") if not key.endswith(b":executed")]


def test_a_staged_command_has_no_effect_until_it_is_committed_and_repeating_the_commit_changes_nothing(redis):
    sink = sink_of(redis, commands_per_request=3)
    staged = stage(sink, ["a", "b", "a"], context())
    assert words(redis) == []
    for replay in (False, True, True):
        committer_of(sink).commit(commit_permit(1, 0, replay=replay), staged)
    assert words(redis) == [b"a", b"b", b"a"]
    assert redis.client.hgetall("counts") == {b"a": b"2", b"b": b"1"}
    assert leftovers(redis) == []


def test_a_commit_that_died_between_two_chunks_is_completed_by_another_process(redis):
    sink = sink_of(redis, commands_per_request=2)
    staged = stage(sink, ["a", "b", "c"], context())
    assert len(staged) == 3
    committer_of(sink).commit(commit_permit(1, 0), staged[:2])
    elsewhere = pickle.loads(pickle.dumps(sink_of(redis, RedisCommand, commands_per_request=2)))
    committer_of(elsewhere).commit(commit_permit(1, 0, replay=True), staged)
    assert words(redis) == [b"a", b"b", b"c"]


def test_a_deposed_leader_that_commits_an_old_checkpoint_again_changes_nothing(redis):
    sink = sink_of(redis)
    first, second = stage(sink, ["a"], context(1)), stage(sink, ["b"], context(2))
    committer_of(sink).commit(commit_permit(1, 0), first)
    committer_of(sink).commit(commit_permit(2, 0), second)
    committer_of(sink).commit(commit_permit(1, 0, replay=True), first)
    committer_of(sink, job="restored under another id").commit(commit_permit(1, 0, replay=True), first)
    assert words(redis) == [b"a", b"b"]


def test_commands_that_were_lost_before_their_commit_fail_the_job(redis):
    sink = sink_of(redis)
    staged = stage(sink, ["a"], context(5))
    redis.client.flushall()
    with pytest.raises(StateError, match=r"has lost the staged commands flott:job:op:chunk:.* of epoch 5"):
        committer_of(sink).commit(commit_permit(5, 0), staged)


def test_what_a_failed_attempt_staged_is_removed_and_live_attempts_stay(redis):
    sink = sink_of(redis)
    stage(sink, ["zombie"], context(1, "dead"))
    staged = stage(sink, ["a"], context(1, "live"))
    committer = committer_of(sink)
    committer.discard(frozenset({"live"}))
    assert len([key for key in leftovers(redis) if b":chunk:" in key]) == 1
    committer.commit(commit_permit(1, 0), staged)
    stage(sink, ["late"], context(1, "dead"))  # the zombie goes on writing: staged, and never executed
    committer_of(sink).discard(frozenset())
    assert (words(redis), leftovers(redis)) == ([b"a"], [])


def test_everything_survives_a_kill_of_the_server_between_staging_and_commit(redis):
    sink = sink_of(redis)
    staged = stage(sink, ["a", "b"], context())
    redis.process.restart()
    committer_of(sink).commit(commit_permit(1, 0), staged)
    redis.process.restart()
    committer_of(sink).commit(commit_permit(1, 0, replay=True), staged)
    assert words(redis) == [b"a", b"b"]


def test_a_refused_command_stops_the_commit_and_the_rest_is_executed_once_when_it_is_repaired(redis):
    sink = sink_of(redis, lambda word: RedisCommand.rpush(f"list-{word}", word))
    redis.client.set("list-b", "a string")
    staged = stage(sink, ["a", "b", "c"], context())
    for _ in range(2):
        with pytest.raises(ConnectorError, match=r"refused RPUSH list-b: .*WRONGTYPE"):
            committer_of(sink).commit(commit_permit(1, 0), staged)
    redis.client.delete("list-b")
    committer_of(sink).commit(commit_permit(1, 0, replay=True), staged)
    assert [redis.client.lrange(f"list-{word}", 0, -1) for word in "abc"] == [[b"a"], [b"b"], [b"c"]]


def test_a_refused_command_can_be_skipped_and_is_kept_in_a_list(redis):
    sink = sink_of(redis, lambda word: RedisCommand.rpush(f"list-{word}", word), on_rejected=OnError.skip())
    redis.client.set("list-b", "a string")
    staged = stage(sink, ["a", "b", "c"], context(4))
    for _ in range(2):
        committer_of(sink).commit(commit_permit(4, 0), staged)
    (refused,) = map(json.loads, redis.client.lrange("flott:rejected", 0, -1))
    assert (refused["command"], refused["epoch"]) == (["RPUSH", "list-b", "b"], 4)
    assert redis.client.lrange("list-c", 0, -1) == [b"c"]


def test_a_full_server_refuses_to_stage_and_commits_are_executed_once(redis):
    sink = sink_of(redis, lambda word: [RedisCommand("LPOP", "queue"), RedisCommand.rpush("words", word)])
    redis.client.rpush("queue", "1", "2", "3")
    staged = stage(sink, ["a"], context())
    redis.client.config_set("maxmemory", "1mb")
    with suppress(ConnectorError):  # Redis lets a script go on that has begun to write
        committer_of(sink).commit(commit_permit(1, 0), staged)
    with pytest.raises(ConnectorError, match=r"did not take commands in 2 attempts.*used memory > 'maxmemory'"):
        stage(sink, ["b"], context(2))
    redis.client.config_set("maxmemory", "0")
    for _ in range(2):
        committer_of(sink).commit(commit_permit(1, 0), staged)
    assert (words(redis), redis.client.lrange("queue", 0, -1)) == ([b"a"], [b"2", b"3"])


def test_a_server_that_is_stalled_is_an_error_after_the_time_out_and_never_a_doubled_command(redis):
    sink = sink_of(redis, timeout_ms=300)
    redis.process.pause()
    try:
        with pytest.raises(ConnectorError, match=r"did not take commands in 2 attempts"):
            stage(sink, ["a"], context(1, "first"))
    finally:
        redis.process.resume()
    staged = stage(sink, ["a"], context(1, "second"))
    committer_of(sink).commit(commit_permit(1, 0), staged)
    committer_of(sink).discard(frozenset({"second"}))
    assert (words(redis), leftovers(redis)) == ([b"a"], [])


def test_all_kinds_of_values(redis):
    commands = [
        RedisCommand.set("string", "ä"),
        RedisCommand.set("fleeting", b"\x00\xff", ttl_seconds=100),
        RedisCommand.incrby("counter", 41),
        RedisCommand.incrby("counter"),
        RedisCommand.hset("hash", {"a": 1, "b": 2.5}),
        RedisCommand.hdel("hash", "a"),
        RedisCommand.lpush("list", "x", "y"),
        RedisCommand.ltrim("list", 0, 0),
        RedisCommand.sadd("set", "m", "n"),
        RedisCommand.srem("set", "n"),
        RedisCommand.zadd("ranks", {"one": 1, "two": 2}),
        RedisCommand.zincrby("ranks", "one", 9),
        RedisCommand.zrem("ranks", "two"),
        RedisCommand.xadd("stream", {"k": "v"}, max_length=100),
        RedisCommand.expire("set", 1000),
        RedisCommand.publish("channel", "message"),
        RedisCommand.delete("nothing"),
    ]
    sink = sink_of(redis, lambda command: command)
    committer_of(sink).commit(commit_permit(1, 0), stage(sink, commands, context()))
    client = redis.client
    assert client.get("string").decode() == "ä"
    assert (client.get("fleeting"), 0 < client.ttl("fleeting") <= 100) == (b"\x00\xff", True)
    assert (client.get("counter"), client.hgetall("hash")) == (b"42", {b"b": b"2.5"})
    assert (client.lrange("list", 0, -1), client.smembers("set")) == ([b"y"], {b"m"})
    assert client.zrange("ranks", 0, -1, withscores=True) == [(b"one", 10.0)]
    assert [fields for _, fields in client.xrange("stream")] == [{b"k": b"v"}]


def test_rows_become_hashes_and_deletions_remove_them(redis):
    sink = RedisSink.builder().set_url(redis.url).set_hash_per_row("id", "user:").build()
    rows = [
        Row(id=1, name="Ada", mail="a@x"),
        Row(id=2, name="Bob", mail=None),
        Row.of_kind(RowKind.UPDATE_BEFORE, id=1, name="Ada", mail="a@x"),
        Row.of_kind(RowKind.UPDATE_AFTER, id=1, name="Ada L.", mail=None),
        Row.of_kind(RowKind.DELETE, id=2, name="Bob", mail=None),
    ]
    committer_of(sink).commit(commit_permit(1, 0), stage(sink, rows, context()))
    assert redis.client.hgetall("user:1") == {b"id": b"1", b"name": b"Ada L."}
    assert redis.client.exists("user:2") == 0


def test_at_least_once_sends_at_once_and_tells_refused_commands_from_others(redis):
    mapper = lambda word: RedisCommand.rpush(f"list-{word}", word)  # noqa: E731
    sink = sink_of(redis, mapper, delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE)
    assert stage(sink, ["a"], context()) == []
    assert redis.client.lrange("list-a", 0, -1) == [b"a"]
    redis.client.config_set("maxmemory", "1mb")
    with pytest.raises(ConnectorError, match="did not accept 1 changes in 2 attempts"):
        stage(sink, ["a"], context())
    redis.client.config_set("maxmemory", "0")
    redis.client.set("list-b", "a string")
    with pytest.raises(ConnectorError, match=r"rejected the command RPUSH list-b: .*WRONGTYPE"):
        stage(sink, ["b", "c"], context())


def test_a_wrong_password_is_named_before_the_job_runs_and_never_shown(tmp_path: Path):
    with redis_server(tmp_path, password="right-password") as server:
        url = server.url.replace("right-password", "wrong-password")
        sink = RedisSink(url, RedisCommand, retries=IMPATIENT)
        with pytest.raises(ProgramError, match="does not accept the user or the password") as refused:
            sink.validate()
        assert "wrong-password" not in f"{refused.value!r} {sink!r} {sink.address}"
        with pytest.raises(ProgramError, match="does not accept the user or the password"):
            stage(
                sink_of(server, url=url) if False else RedisSink(url, RedisCommand.delete, retries=IMPATIENT),
                ["a"],
                context(),
            )
        RedisSink(server.url, RedisCommand).validate()


def test_a_server_that_is_away_is_an_error_that_names_it(redis):
    sink = RedisSink("redis://:hidden-secret@127.0.0.1:1/0", RedisCommand.delete, retries=IMPATIENT)
    sink.validate()  # it may be back when the job needs it
    with pytest.raises(ConnectorError, match=r"Redis at redis://:\*+@127.0.0.1:1/0 did not take") as away:
        stage(sink, ["a"], context())
    assert "hidden-secret" not in str(away.value)


def test_a_job_counts_exactly_once(redis):
    env = in_process(2)
    numbers = env.from_collection([f"w{number % 3}" for number in range(300)])
    numbers.sink_to(sink_of(redis, lambda word: RedisCommand.hincrby("counts", word, 1)))
    env.execute("count words")
    assert redis.client.hgetall("counts") == {b"w0": b"100", b"w1": b"100", b"w2": b"100"}
    assert leftovers(redis) == []


def test_the_programs_of_the_page_run(redis: RedisServer, capfd: pytest.CaptureFixture[str]):
    redis.client.set("price:tea", "3")
    run_page("redis.md", {"redis://localhost:6379/0": redis.url})
    assert redis.client.hgetall("counts") == {b"tea": b"2", b"jam": b"1"}
    assert sorted(line.rpartition("> ")[2] for line in capfd.readouterr().out.splitlines()) == [
        "('jam', None)",
        "('tea', '3')",
    ]
