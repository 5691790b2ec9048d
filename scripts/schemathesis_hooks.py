"""What this project adds to Schemathesis: which valid requests may be refused, and nothing more.

A schema cannot say that a cursor or a token was signed by this store, that two ids differ, or that an id is counted in
bytes. Schemathesis would call each such refusal a fault, so its own check is replaced by one that knows the codes.
"""

import json

import schemathesis
from schemathesis.generation import GenerationMode

BEYOND_A_SCHEMA = {
    "invalid_cursor",
    "invalid_token",
    "self_follow",
    "self_block",
    "quiet_private",
    "following_limit",
    "group_limit",
    "idempotency_mismatch",
}


@schemathesis.check
def valid_requests_are_accepted(ctx, response, case):
    """A request that fits the document succeeds, or is refused for what only the server can know."""
    if case.meta is None or case.meta.generation.mode != GenerationMode.POSITIVE:
        return
    if response.status_code not in (400, 406, 415, 422):
        return
    problem = response.json()
    if problem.get("code") in BEYOND_A_SCHEMA or explained(case, problem):
        return
    raise AssertionError(f"{case.method} {case.path} fits the document but was refused: {problem}")


def depth(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


def explained(case, problem):
    """Refusals that say which value is to blame, where the document cannot say it."""
    code, pointers = problem.get("code"), {error["pointer"] for error in problem.get("errors", [])}
    # An id has at most 128 bytes, a schema counts characters; the same with names and addresses.
    long_text = any(len(str(value).encode()) > 128 for value in texts(case))
    if code == "invalid_id":
        return long_text
    if code == "invalid_request" and pointers & {"/name", "/avatar_url", "/external_id"}:
        return long_text
    # A mute ends in the time to come, and a member of a group has to do with its owner.
    if code == "invalid_request" and ("/expires_at" in pointers or "member of a group" in problem.get("detail", "")):
        return True
    # Times are those from 2000 to 2069.
    if code == "invalid_request" and pointers and all(pointer.startswith("/signals/") for pointer in pointers):
        times = [signal["at"] for signal in case.body["signals"] if "at" in signal]
        return any(not "2000" < time[:4] < "2069" for time in times)
    # Two ids of an address may be the same one.
    if code == "invalid_request" and "mute themselves" in problem.get("detail", ""):
        ids = case.path_parameters or {}
        return ids.get("id") == ids.get("other")
    # The body of a post has at most 10,240 bytes and is at most 32 deep.
    if code == "invalid_request" and pointers == {"/body"}:
        return len(json.dumps(case.body)) > 10_000 or depth(case.body) > 32
    # Whoever acts has to be named where nobody else is, and only services say when somebody registered.
    headers = {name.lower() for name in (case.headers or {})}
    return code == "invalid_request" and "entourage-actor" not in headers and "acting user" in problem.get("detail", "")


def texts(value):
    """Every text of a request."""
    for part in (value.path_parameters, value.query, value.headers, value.body):
        yield from leaves(part)


def leaves(value):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    elif isinstance(value, str):
        yield value
