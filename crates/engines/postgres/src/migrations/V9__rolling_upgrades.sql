-- Servers of two versions on one schema: which version of it each server knows, and from which version on one may write.
ALTER TABLE servers ADD COLUMN knows integer NOT NULL DEFAULT 8;
ALTER TABLE meta ADD COLUMN writers_from integer NOT NULL DEFAULT 0;
