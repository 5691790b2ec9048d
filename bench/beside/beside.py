"""The same follows in a graph database (Kuzu) and in a columnar batch engine (DuckDB), both in this process.

    pip install -r bench/beside/requirements.txt
    python3 bench/beside/beside.py [users] [follows each]

Prints JSON: bytes an edge on disk, seconds to load, milliseconds of a check and of the two hops of one viewer, and, for
the batch engine, seconds of the two hops of everybody. Medians.
"""

import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time

import duckdb
import kuzu

VIEWERS = 20
CHECKS = 500
FIFTY = "ORDER BY common DESC, id LIMIT 50"


def write_follows(path, users, each):
    draw = random.Random(7)
    with open(path, "w") as out:
        for user in range(users):
            for target in draw.sample(range(users), each):
                if target != user:
                    out.write(f"{user},{target}\n")


def bytes_of(path):
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(top, name)) for top, _, names in os.walk(path) for name in names)


def milliseconds(ask, arguments):
    times = []
    for argument in arguments:
        began = time.perf_counter()
        ask(*argument)
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)


def pairs(users, count):
    draw = random.Random(31)
    return [(draw.randrange(users), draw.randrange(users)) for _ in range(count)]


def in_kuzu(folder, follows, users, edges):
    path = os.path.join(folder, "kuzu")
    began = time.perf_counter()
    database = kuzu.Database(path)
    connection = kuzu.Connection(database)
    people = os.path.join(folder, "people.csv")
    with open(people, "w") as out:
        out.writelines(f"{user}\n" for user in range(users))
    connection.execute("CREATE NODE TABLE Person(id INT64, PRIMARY KEY(id))")
    connection.execute("CREATE REL TABLE Follows(FROM Person TO Person)")
    connection.execute(f'COPY Person FROM "{people}"')
    connection.execute(f'COPY Follows FROM "{follows}"')
    loaded = time.perf_counter() - began
    check = connection.prepare("MATCH (a:Person {id: $a})-[:Follows]->(b:Person {id: $b}) RETURN count(*)")
    hops = connection.prepare(
        "MATCH (v:Person {id: $v})-[:Follows]->(h:Person)-[:Follows]->(c:Person) "
        "WHERE c.id <> $v AND NOT EXISTS { MATCH (v)-[:Follows]->(c) } "
        f"RETURN c.id AS id, count(*) AS common {FIFTY}"
    )
    ask = lambda a, b: connection.execute(check, {"a": a, "b": b}).get_all()
    two = lambda viewer: connection.execute(hops, {"v": viewer}).get_all()
    two(0)
    found = {
        "version": kuzu.__version__,
        "seconds_to_load": loaded,
        "check_ms": milliseconds(ask, pairs(users, CHECKS)),
        "two_hops_ms": milliseconds(two, [(viewer,) for viewer in range(VIEWERS)]),
    }
    connection.close()
    database.close()
    return found | {"bytes_an_edge": bytes_of(path) / edges}


def in_duckdb(folder, follows, users, edges):
    path = os.path.join(folder, "duckdb")
    began = time.perf_counter()
    database = duckdb.connect(path)
    database.execute(f"CREATE TABLE follows AS SELECT * FROM read_csv('{follows}', header=false, names=['a', 'b'])")
    loaded = time.perf_counter() - began
    hops = (
        "SELECT two.b AS id, count(*) AS common FROM follows one JOIN follows two ON two.a = one.b "
        "WHERE one.a = ? AND two.b <> one.a AND two.b NOT IN (SELECT b FROM follows WHERE a = ?) GROUP BY two.b " + FIFTY
    )
    check = lambda a, b: database.execute("SELECT count(*) FROM follows WHERE a = ? AND b = ?", [a, b]).fetchall()
    two = lambda viewer: database.execute(hops, [viewer, viewer]).fetchall()
    two(0)
    found = {
        "version": duckdb.__version__,
        "seconds_to_load": loaded,
        "check_ms": milliseconds(check, pairs(users, CHECKS // 10)),
        "two_hops_ms": milliseconds(two, [(viewer,) for viewer in range(VIEWERS)]),
    }
    began = time.perf_counter()
    database.execute(
        "SELECT count(*) FROM (SELECT one.a, two.b FROM follows one JOIN follows two ON two.a = one.b "
        "WHERE one.a <> two.b GROUP BY one.a, two.b HAVING count(*) >= 2)"
    ).fetchall()
    found["two_hops_of_everybody_s"] = time.perf_counter() - began
    database.close()
    return found | {"bytes_an_edge": bytes_of(path) / edges}


def main():
    users, each = (int(word) for word in (sys.argv[1:] + ["20000", "50"][len(sys.argv) - 1 :])[:2])
    folder = tempfile.mkdtemp()
    try:
        follows = os.path.join(folder, "follows.csv")
        write_follows(follows, users, each)
        edges = sum(1 for _ in open(follows))
        found = {"users": users, "edges": edges}
        for name, measure in [("kuzu", in_kuzu), ("duckdb", in_duckdb)]:
            found[name] = measure(folder, follows, users, edges)
        print(json.dumps(found, indent=2))
    finally:
        shutil.rmtree(folder)


main()
