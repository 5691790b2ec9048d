-- Numbers of kinds, states, planes and sides are those of the model's enums. Versions and positions are the
-- 63 bits of a version; keys order as signed.

CREATE TABLE meta (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    epoch bigint NOT NULL,
    secret bytea NOT NULL CHECK (octet_length(secret) = 32)
);

-- Which server number is whose, and for how long by this database's clock.
CREATE TABLE servers (
    number smallint PRIMARY KEY CHECK (number BETWEEN 0 AND 1023),
    holder bigint NOT NULL,
    leased_until timestamptz NOT NULL
);

CREATE TABLE users (
    key bigint PRIMARY KEY,
    id text NOT NULL,
    name text,
    avatar_url text,
    private boolean NOT NULL,
    hide_lists boolean NOT NULL,
    registered_at bigint NOT NULL,
    created bigint NOT NULL,
    version bigint NOT NULL
);

-- Removed edges stay, with the version of their removal: a later write must exceed it.
CREATE TABLE edges (
    follower bigint NOT NULL,
    target bigint NOT NULL,
    kind smallint NOT NULL CHECK (kind BETWEEN 0 AND 2),
    state smallint NOT NULL CHECK (state BETWEEN 0 AND 3),
    quiet boolean NOT NULL,
    version bigint NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (follower, target, kind),
    CHECK (follower <> target)
);
CREATE INDEX edges_following ON edges (follower, kind, state, position DESC, target DESC) WHERE state <> 3;
CREATE INDEX edges_followers ON edges (target, kind, state, position DESC, follower DESC) WHERE state <> 3;

-- A count is its row here plus its deltas. Commits only insert deltas, so that the followers of one celebrity
-- never wait for each other; folding moves deltas into the row.
CREATE TABLE counts (
    user_key bigint NOT NULL,
    plane smallint NOT NULL,
    side smallint NOT NULL,
    total bigint NOT NULL,
    quiet bigint NOT NULL,
    PRIMARY KEY (user_key, plane, side)
);
CREATE TABLE count_deltas (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_key bigint NOT NULL,
    plane smallint NOT NULL,
    side smallint NOT NULL,
    total bigint NOT NULL,
    quiet bigint NOT NULL
);
CREATE INDEX count_deltas_user ON count_deltas (user_key, plane, side);
CREATE VIEW count_parts AS
    SELECT user_key, plane, side, total, quiet FROM counts
    UNION ALL
    SELECT user_key, plane, side, total, quiet FROM count_deltas;

CREATE TABLE idempotency (
    scope bytea PRIMARY KEY CHECK (octet_length(scope) = 16),
    request bigint NOT NULL,
    version bigint NOT NULL,
    reply jsonb NOT NULL
);
CREATE INDEX idempotency_version ON idempotency (version);

-- One row for each change, in the commit of the change. Identity numbers leave gaps and commit out of order;
-- rows are final, and their order known, below the oldest transaction still running.
CREATE TABLE outbox (
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    id bigint GENERATED ALWAYS AS IDENTITY,
    version bigint NOT NULL,
    change jsonb NOT NULL,
    PRIMARY KEY (xid, id)
);

-- The sequence given out last, and the greatest version among the events.
CREATE TABLE relay (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    sequence bigint NOT NULL,
    high_water bigint NOT NULL
);
INSERT INTO relay (sequence, high_water) VALUES (0, 0);

CREATE TABLE events (
    sequence bigint PRIMARY KEY,
    version bigint NOT NULL,
    change jsonb NOT NULL
);
