-- What is kept beside the graph, and what edges and users have since.
ALTER TABLE users ADD COLUMN follow_suspended boolean NOT NULL DEFAULT false;
ALTER TABLE edges ADD COLUMN accepted boolean NOT NULL DEFAULT false;
-- Seconds since 2000; whoever reads a mute minds the time.
ALTER TABLE edges ADD COLUMN expires bigint;

CREATE TABLE records (
    owner bigint NOT NULL,
    space smallint NOT NULL,
    id bytea NOT NULL CHECK (octet_length(id) BETWEEN 1 AND 32),
    version bigint NOT NULL,
    value bytea NOT NULL CHECK (octet_length(value) <= 65536),
    PRIMARY KEY (owner, space, id)
);

-- Follows and requests that ended, for their followers.
CREATE TABLE history (
    follower bigint NOT NULL,
    ended bigint NOT NULL,
    target bigint NOT NULL,
    state smallint NOT NULL,
    quiet boolean NOT NULL,
    accepted boolean NOT NULL,
    position bigint NOT NULL,
    cause smallint NOT NULL,
    PRIMARY KEY (follower, ended)
);
CREATE INDEX history_ended ON history (ended);

-- When each key was last erased: whoever has it next gets a version above.
CREATE TABLE erased (
    key bigint PRIMARY KEY,
    version bigint NOT NULL
);
