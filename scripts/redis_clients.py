"""redis-py against a server: default handshake, both protocols, its default pipeline. Arguments: two ports and a key."""

import sys

import redis

OPEN, GUARDED, KEY = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


def same(found, wanted):
    if found != wanted:
        raise SystemExit(f"expected {wanted!r}, got {found!r}")


def refused(prefix, call):
    try:
        call()
    except redis.ResponseError as error:
        same(str(error).split(" ")[0], prefix)
    else:
        raise SystemExit(f"{prefix} did not come")


def run(client, me):
    key = f"following:{me}"
    same(client.ping(), True)
    same(client.sadd(key, "b", "c", "d"), 3)
    same(bool(client.sismember(key, "b")), True)
    same([int(found) for found in client.smismember(key, ["b", "x", "d"])], [1, 0, 1])
    same(set(client.smembers(key)), {"b", "c", "d"})
    same(sorted(client.sscan_iter(key, count=1)), ["b", "c", "d"])
    same(sorted(client.sscan_iter(key, match="[bc]")), ["b", "c"])
    same(client.scard(key), 3)
    same(client.get(f"following_count:{me}"), "3")
    same(client.mget(f"is_following:{me}:b", f"is_following:b:{me}", "follower_count:nobody"), ["1", "0", None])
    rows = client.zrevrange(key, 0, -1, withscores=True)
    same(len(rows), 3)
    same(all(score > 1e12 for _, score in rows), True)
    same(client.zscore(key, "nobody"), None)
    same(client.exists(key), 1)
    same(client.expire(key, 60), True)
    # The default pipeline is a transaction.
    same(client.pipeline().sismember(key, "b").scard(key).get(f"is_following:{me}:x").execute(), [1, 3, "0"])
    same(client.pipeline(transaction=False).srem(key, "d").sismember(key, "d").execute(), [1, 0])
    refused("SELFFOLLOW", lambda: client.execute_command("EG.FOLLOW", me, me))
    refused("WRONGTYPE", lambda: client.get(key))
    try:
        client.pipeline().sadd(key, "z").execute()
    except (redis.ResponseError, redis.exceptions.ExecAbortError):
        pass
    else:
        raise SystemExit("a write went through a transaction")
    same(bool(client.sismember(key, "z")), False)
    same("sismember" in client.command(), True)
    same("redis_version" in client.info(), True)


for protocol in (2, 3):
    with redis.Redis(port=OPEN, protocol=protocol, decode_responses=True) as client:
        run(client, f"py{protocol}")
    with redis.Redis(port=GUARDED, password=KEY, protocol=protocol, decode_responses=True, client_name="tests") as client:
        run(client, f"py{protocol}")
        same(client.client_getname(), "tests")
    with redis.Redis(port=GUARDED, username="tests", password=KEY, protocol=protocol) as client:
        same(client.ping(), True)
    with redis.Redis(port=GUARDED, password="wrong", protocol=protocol) as client:
        try:
            client.ping()
        except redis.AuthenticationError:
            pass
        else:
            raise SystemExit("a wrong key was let in")
print(f"redis-py {redis.__version__}: fine")
