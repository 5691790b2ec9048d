-- Commits number their own events: the row of the relay is changed last in each. Servers of level 0 fill the outbox
-- instead, and two ways at once would mix up the order: `is_direct` once none of them is left.
ALTER TABLE relay ADD COLUMN is_direct boolean NOT NULL DEFAULT false;
-- Changed by every commit: room on the page keeps its versions where they are found at once.
ALTER TABLE relay SET (fillfactor = 10);
ALTER TABLE counts SET (fillfactor = 80);
ALTER TABLE servers ADD COLUMN level smallint NOT NULL DEFAULT 0;
