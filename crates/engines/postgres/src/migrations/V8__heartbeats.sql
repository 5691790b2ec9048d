-- Which processes are alive, by this database's clock. The session is part of the application name of their
-- connections.
CREATE TABLE heartbeats (
    id bigint PRIMARY KEY,
    session bigint NOT NULL,
    number smallint,
    about text NOT NULL,
    beaten timestamptz NOT NULL
);
