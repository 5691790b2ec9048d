-- A row that was copied is not the row that was written: a restored dump, or a database that was made from a template, has
-- the same rows and is another history. The oid of the database above the number of the transaction that wrote the row,
-- as 32 bits each. NULL: of a server that does not know of it.
ALTER TABLE lineages ADD COLUMN written_by bigint;
