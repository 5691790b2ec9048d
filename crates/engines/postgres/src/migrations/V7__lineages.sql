-- Which history of PostgreSQL is which: a promoted standby and restored files continue from an earlier moment, and
-- whatever came after it is lost. Whoever first meets a PostgreSQL adds a row before it writes. The id is the number
-- above 32 random bits; two histories that parted have different ones. The first row lost nothing.
CREATE TABLE lineages (
    number bigint PRIMARY KEY,
    id bigint NOT NULL UNIQUE,
    system_identifier bigint NOT NULL,
    timeline bigint NOT NULL,
    -- When its postmaster was started, in microseconds.
    started bigint NOT NULL,
    -- The last event when it began.
    fork bigint,
    UNIQUE (system_identifier, timeline, started)
);
