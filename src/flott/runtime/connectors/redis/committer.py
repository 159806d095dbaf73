"""Executes staged commands after their checkpoint, each chunk exactly once. Driver side.

A script executes the commands of a chunk and removes the chunk. Redis does both in one step, and writes both to its log
in one transaction. So a chunk that is still there was not executed. One that is not there was executed if the marker
says so, which the script writes in the same step; otherwise it is lost, and the job must not continue.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from flott.datastream.connectors.base import CommitPermit, Committer, Json
from flott.datastream.connectors.redis import RedisSink
from flott.errors import ConnectorError, StateError
from flott.runtime.connectors.redis.client import PASSING, borrow, passes
from flott.runtime.connectors.redis.staging import (
    VERSION,
    attempt_of,
    base_name,
    chunk_name,
    index_name,
    marker_name,
)

_log = logging.getLogger(__name__)

#: KEYS: the chunk, the marker, the index, the list of refused commands. ARGV: the epoch, the chunk's name in the index,
#: "1" to go on after a refused command, and how errors begin that pass. A Redis script that fails is not rolled back,
#: so this one never fails half way: it cuts off what it has executed, and says what was refused. The marker is written
#: first: if memory is short, the script must fail before it has executed anything.
EXECUTE = """
local staged, marker, index, refused = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local epoch, name, skips = tonumber(ARGV[1]), ARGV[2], ARGV[3] == '1'
local marked = tonumber(redis.call('HGET', marker, 'epoch') or '-1')
if redis.call('EXISTS', staged) == 0 then
  redis.call('SREM', index, name)
  if marked > epoch or (marked == epoch and redis.call('HEXISTS', marker, name) == 1) then
    return {'executed before'}
  end
  return {'lost'}
end
if marked ~= epoch then redis.call('DEL', marker) end
local noted = redis.pcall('HSET', marker, 'epoch', ARGV[1], name, '1')
if type(noted) == 'table' and noted.err then return {'refused', noted.err, 'HSET', marker} end
local parts = redis.call('LRANGE', staged, 0, -1)
local at, skipped = 1, 0
while at <= #parts do
  local count = tonumber(parts[at])
  local answer = redis.pcall(unpack(parts, at + 1, at + count))
  if type(answer) == 'table' and answer.err then
    local passing = false
    for i = 4, #ARGV do passing = passing or string.sub(answer.err, 1, #ARGV[i]) == ARGV[i] end
    if skips and not passing then
      redis.pcall('RPUSH', refused, cjson.encode({error = answer.err, epoch = epoch,
        command = {unpack(parts, at + 1, at + count)}}))
      skipped = skipped + 1
    else
      redis.call('LTRIM', staged, at - 1, -1)
      redis.call('HDEL', marker, name)
      return {'refused', answer.err, parts[at + 1], parts[at + 2] or ''}
    end
  end
  at = at + count + 1
end
redis.call('DEL', staged)
redis.call('SREM', index, name)
return {'executed', skipped}
"""


class RedisCommitter(Committer):
    """Executes chunks in the order in which they were staged, and removes those of failed attempts."""

    def __init__(self, sink: RedisSink):
        self._sink = sink
        self._base = ""

    def open(self, job_id: str, operator_id: str) -> None:
        self._base = base_name(self._sink.key_prefix, job_id, operator_id)

    def commit(self, permit: CommitPermit, committables: Sequence[Json]) -> None:
        if not committables:
            return
        for one in committables:
            if one["version"] != VERSION:
                raise StateError(
                    f"Found a committable of version {one['version']}; this Flott reads version {VERSION}. Use the"
                    " version of Flott that wrote the checkpoint."
                )
        with borrow(self._sink) as client:
            script = client.register_script(EXECUTE)
            for one in committables:
                self._execute(script, one)

    def discard(self, live_attempts: frozenset[str]) -> None:
        index = index_name(self._base)
        with borrow(self._sink) as client:
            for member in client.smembers(index):
                chunk = member.decode()
                if attempt_of(chunk) not in live_attempts:
                    client.delete(chunk_name(self._base, chunk))
                    client.srem(index, member)

    def _execute(self, script: Any, one: Json) -> None:
        base, chunk = one["base"], one["chunk"]
        keys = [chunk_name(base, chunk), marker_name(base), index_name(base), f"{self._sink.key_prefix}:rejected"]
        skips = "1" if self._sink.on_rejected.keeps_going else "0"
        answer = script(keys=keys, args=[one["epoch"], chunk, skips, *PASSING])
        verdict = answer[0].decode()
        if verdict == "lost":
            raise StateError(
                f"Redis at {self._sink.address} has lost the staged commands {chunk_name(base, chunk)} of epoch"
                f" {one['epoch']}, which were not executed. Was a key deleted or evicted, or did Redis restart without"
                " its data? Use appendonly persistence and a maxmemory-policy that does not evict keys without a"
                " time to live. To go on without these commands, start the job from a savepoint."
            )
        if verdict == "refused":
            reason, *command = (part.decode("utf-8", "backslashreplace") for part in answer[1:])
            advice = "" if passes(reason) else " Repair the key, or let the sink skip such commands with on_rejected."
            raise ConnectorError(
                f"Redis at {self._sink.address} refused {' '.join(command)}: {reason.rstrip('.')}. The commands before"
                f" it are executed, the ones after it wait.{advice}"
            )
        if verdict == "executed" and answer[1]:
            _log.warning(
                "Redis at %s refused %d commands of epoch %d; they are in the list %s:rejected.",
                self._sink.address, answer[1], one["epoch"], self._sink.key_prefix,
            )  # fmt: skip
