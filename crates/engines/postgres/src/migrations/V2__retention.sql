-- Events past retention are dropped from the front: the last sequence that is gone, and the greatest version among
-- all that are.
ALTER TABLE relay ADD COLUMN dropped bigint NOT NULL DEFAULT 0;
ALTER TABLE relay ADD COLUMN dropped_version bigint NOT NULL DEFAULT 0;
