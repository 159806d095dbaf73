"""What of a program's output depends neither on the order of channels nor on when watermarks and rules arrive.

In epochs, event time advances at the end of an epoch, and broadcast records of an epoch come first. The golden files
are written in epochs. Where tasks run continuously, a record may be late that is not late in epochs or the other way
round, and a rule may meet other records. For the programs whose output shows this, the functions of this module say
what must be true of every output: what is exact all the same, and that every record counted exactly once.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

from tests.programs import (
    broadcast_rules,
    connected_streams,
    event_time_timers,
    joins,
    keyed_sum_two_sinks,
    pattern_rules,
    runner,
    windows,
)

Lines = dict[str, list[str]]  #: the lines of each sink
OUT_OF_ORDER_MS = 5


def assert_order_free(name: str, found: Iterable[str]) -> None:
    """Assert what must be true of a program's output in every order."""
    CHECKS[name](_by_sink(found), _by_sink(runner.golden(name)))


def _by_sink(lines: Iterable[str]) -> Lines:
    sinks: Lines = defaultdict(list)
    for line in lines:
        sink, _, record = line.partition("\t")
        sinks[sink].append(record)
    return sinks


def _records(script: Any) -> list[Any]:
    scripts = script.values() if isinstance(script, dict) else [script]
    return [entry for entries in scripts for entry in entries if isinstance(entry, (tuple, dict, int))]


def _perhaps_late(script: dict[str, Any]) -> set[Any]:
    """Return the records that come behind the watermark of their own split: others are never late."""
    late = set()
    for entries in script.values():
        highest = 0
        for record in _records(entries):
            highest = max(highest, record[1])
            if record[1] < highest - OUT_OF_ORDER_MS:
                late.add(record)
    return late


def _same(found: Lines, golden: Lines, sinks: Iterable[str], holds: Callable[[str], bool] = bool) -> None:
    for sink in sinks:
        assert Counter(filter(holds, found[sink])) == Counter(filter(holds, golden[sink])), sink


# --- programs ------------------------------------------------------------------------------------------------------


def _changelog(found: Lines, golden: Lines) -> None:
    """The sum of all changes is exact."""
    assert _net(found) == _net(golden)


def _net(lines: Lines) -> Counter[str]:
    net: Counter[str] = Counter()
    for sink, records in lines.items():
        for record in records:
            kind, _, row = record.partition(" ")
            if kind in ("+I", "+U", "-U", "-D"):
                net[f"{sink}\t{row}"] += 1 if kind.startswith("+") else -1
            else:
                net[f"{sink}\t{record}"] += 1
    return Counter({line: count for line, count in net.items() if count})


def _windows(found: Lines, golden: Lines) -> None:
    """Windows of users without late visits are exact; no visit of the others is lost or counted twice."""
    perhaps_late = _perhaps_late(windows.SCRIPT)
    doubtful = {visit[0] for visit in perhaps_late}

    def is_certain(line: str) -> bool:
        return not any(user in line for user in doubtful)

    _same(found, golden, ["lenient", "sliding", "listed"], is_certain)
    for sink in ("tumbling", "growing"):
        assert _sums(filter(is_certain, found[sink])) == _sums(filter(is_certain, golden[sink]))
    late = [ast.literal_eval(line) for line in found["late"]]
    assert set(late) <= perhaps_late
    assert max(Counter(late).values(), default=1) == 1
    amounts: Counter[str] = Counter()
    for user, _, amount in [*map(ast.literal_eval, found["tumbling"]), *late]:
        amounts[user] += amount
    visits = _records(windows.SCRIPT)
    assert amounts == Counter({user: sum(v[2] for v in visits if v[0] == user) for user in {v[0] for v in visits}})
    if Counter(found["late"]) == Counter(golden["late"]):
        assert _sums(found["tumbling"]) == _sums(golden["tumbling"])
    listed: Counter[tuple[str, int, int]] = Counter()
    for line in found["listed"]:
        listed.update((line.split()[0], *visit) for visit in ast.literal_eval(line[line.index(": [") + 2 :]))
    assert {visit for visit, count in listed.items() if count != 1} == set()
    assert set(visits) - perhaps_late <= set(listed) <= set(visits)
    # Each window over all users has the last three that came.
    assert len(found["evicted"]) == 3
    evicted = sorted((ast.literal_eval(line) for line in found["evicted"]), key=lambda window: window[1])
    for start, window in zip((0, 30, 60), evicted, strict=True):
        inside = [visit for visit in visits if start <= visit[1] < start + 30]
        sums = {("all", max(v[1] for v in chosen), sum(v[2] for v in chosen)) for chosen in combinations(inside, 3)}
        assert window in sums


def _sums(lines: Iterable[str]) -> Counter[tuple[str, int]]:
    """Return users and amounts: the time is that of the visit that came first."""
    return Counter((user, amount) for user, _, amount in map(ast.literal_eval, lines))


def _event_time_timers(found: Lines, golden: Lines) -> None:
    """Every visit belongs to one session or is late; a session ends where its last visit says so."""
    seen: Counter[tuple[str, int]] = Counter()
    for line in found["sessions"]:
        user, times, until = re.fullmatch(r"(\w+): (\[.*\]) until (\d+)", line).groups()  # type: ignore[union-attr]
        visits = ast.literal_eval(times)
        assert int(until) == max(visits) + event_time_timers.GAP_MS
        seen.update((user, at) for at in visits)
    late = [(line.split(" at ")[0], int(line.split(" at ")[1])) for line in found["late"]]
    assert set(late) <= _perhaps_late(event_time_timers.SCRIPT)
    assert seen + Counter(late) == Counter(_records(event_time_timers.SCRIPT))


def _patterns(found: Lines, golden: Lines) -> None:
    """Events are sorted by time before they are matched: matches of accounts without late events are exact."""
    doubtful = {ast.literal_eval(line)[0] for line in golden["late"]}
    _same(
        found, golden, ["fraud", "over", "pairs", "quiet", "rising"], lambda line: line.split()[0] not in doubtful
    )
    assert set(found["late"]) <= set(golden["late"])
    assert len(set(found["late"])) == len(found["late"])
    if len(found["late"]) == len(golden["late"]):
        _same(found, golden, ["fraud", "over"])


def _joins(found: Lines, golden: Lines) -> None:
    """All pairs are found but those of the shipment that is late in epochs; which was the slowest depends on order."""
    [(late, at)] = [ast.literal_eval(line) for line in golden["late"]]
    assert found["late"] in ([], [str((late, at))])
    _same(found, golden, ["shipped", "joined", "grouped"], lambda line: late not in line)
    if found["late"]:
        _same(found, golden, ["shipped"])
    pairs: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for line in found["shipped"]:
        key, *numbers = re.fullmatch(r"(\w+) ordered at (\d+), shipped at (\d+) \((\d+)\)", line).groups()  # type: ignore[union-attr]
        pairs[key].append((key, *map(int, numbers)))
    slow = Counter(map(ast.literal_eval, found["slow"]))
    for key, of_key in pairs.items():
        slowest = max(of_key, key=lambda pair: (pair[2] - pair[1], pair))
        told = Counter({pair: count for pair, count in slow.items() if pair[0] == key})
        assert (slowest in told) == (slowest[2] - slowest[1] > 4)
        assert set(told) <= set(of_key)
        assert told.total() <= len(of_key)
    assert {pair[0] for pair in slow} <= set(pairs)
    assert set(_records(joins.ORDERS)) >= {(pair[0], pair[1]) for of_key in pairs.values() for pair in of_key}


def _keyed_sums(found: Lines, golden: Lines) -> None:
    """The sums of a key differ by its numbers, each of which was added once."""
    rows = [tuple(map(int, line.split("="))) for line in found["table"]]
    for pairs in (list(map(ast.literal_eval, found["sums"])), rows):
        sums: dict[int, list[int]] = defaultdict(list)
        for key, total in pairs:
            sums[key].append(total)
        for key in range(5):
            steps = [after - before for before, after in zip([0, *sorted(sums[key])], sorted(sums[key]), strict=False)]
            assert sorted(steps) == [n for n in sorted(_records(keyed_sum_two_sinks.SCRIPT)) if n % 5 == key]
    per_rest = Counter(ast.literal_eval(line)[1] % 3 for line in found["sums"])
    expected = [f"{rest}: {seen} seen" for rest in per_rest for seen in range(4, per_rest[rest] + 1, 4)]
    assert sorted(found["seen"]) == sorted(expected)


def _connected(found: Lines, golden: Lines) -> None:
    """Every order gets a price of its article or is given up, once."""
    _same(found, golden, ["labels", "expensive"])
    prices = {(article, price) for article, price, _ in _records(connected_streams.PRICES)}
    orders = Counter()
    for line in found["joined"]:
        if given_up := re.fullmatch(r"(\w+) given up at (\d+)", line):
            orders[given_up[1], int(given_up[2]) - connected_streams.PATIENCE_MS] += 1
        else:
            priced = re.fullmatch(r"(\w+) at (\d+) (?:waited )?for (\d+)", line)
            assert priced is not None
            assert (priced[1], int(priced[3])) in prices
            orders[priced[1], int(priced[2])] += 1
    assert orders == Counter(_records(connected_streams.ORDERS))


def _broadcast(found: Lines, golden: Lines) -> None:
    """Alarms and refusals follow from some order of payments and rules; no payment is judged twice."""
    payments = _records(broadcast_rules.PAYMENTS)
    rules = _records(broadcast_rules.RULES)
    limits = {rule[1] for rule in rules if rule[0] == "limit"}
    refused = [ast.literal_eval(line) for line in found["refused"]]
    assert set(refused) <= {payment for payment in payments if ("block", payment[0]) in {rule[:2] for rule in rules}}
    assert max(Counter(refused).values(), default=1) == 1
    judged = Counter()
    for line in found["alarms"]:
        if alarm := re.fullmatch(r"(\w+) spent (\d+) of (\d+) at (\d+)", line):
            account, spent, limit, at = alarm[1], int(alarm[2]), int(alarm[3]), int(alarm[4])
            [own] = [payment[1] for payment in payments if (payment[0], payment[2]) == (account, at)]
            others = [payment[1] for payment in payments if payment[0] == account and payment[2] != at]
            assert spent - own in {sum(some) for n in range(len(others) + 1) for some in combinations(others, n)}
            assert limit in limits
            assert spent > limit
            judged[account, at] += 1
        else:
            late = re.fullmatch(r"(\w+) still over (\d+) at (\d+)", line)
            assert late is not None
            assert int(late[2]) in limits
            judged[late[1], int(late[3])] += 1
    times = {(account, at + wait) for account, _, at in payments for wait in (0, 15)}
    assert set(judged) <= times
    assert max(judged.values()) == 1
    assert not {(account, at) for account, _, at in refused} & set(judged)
    of_ada = [line for line in found["alarms"] if line.startswith("ada")]
    told = [line.split(": ")[1].split(" | ") for line in found["reports"]]
    assert sorted(line.split(":")[0] for line in found["reports"]) == [
        f"after {number}" for number in range(3, len(of_ada) + 1, 3)
    ]
    assert not Counter(alarm for report in told for alarm in report) - Counter(of_ada)


def _pattern_rules(found: Lines, golden: Lines) -> None:
    """Every match is one by the version of the rule that it names, and none is found twice."""
    _same(found, golden, ["failed"])
    degrees = {(machine, at): value for machine, at, value in _records(pattern_rules.READINGS)}
    conditions: dict[tuple[str, int], Callable[..., bool]] = {
        ("overheated", 1): lambda a, b: a > 90 and b > 90 and b > a,
        ("overheated", 2): lambda a, b: a > 90 and b > 95,
        ("cold", 1): lambda a: a < 70,
        ("broken", 2): lambda a: a == 61,
    }
    for line in found["found"]:
        rule, version, machine, times = re.fullmatch(r"(\w+) v(\d+) (\w+): ([\d ]+)", line).groups()  # type: ignore[union-attr]
        at = [int(time) for time in times.split()]
        assert conditions[rule, int(version)](*(degrees[machine, time] for time in at)), line
        assert at == sorted(at)
        assert at[-1] - at[0] < 30
    for line in found["over"]:
        rule, machine, time = re.fullmatch(r"(\w+) v\d+ (\w+): (\d+)", line).groups()  # type: ignore[union-attr]
        assert rule == "overheated"
        assert degrees[machine, int(time)] > 90
    assert found["found"]
    for sink in ("found", "over"):
        assert max(Counter(found[sink]).values(), default=1) == 1


CHECKS = {
    "broadcast_rules": _broadcast,
    "connected_streams": _connected,
    "event_time_timers": _event_time_timers,
    "joins": _joins,
    "keyed_sum_two_sinks": _keyed_sums,
    "pattern_rules": _pattern_rules,
    "patterns": _patterns,
    "tables": _changelog,
    "windows": _windows,
}
