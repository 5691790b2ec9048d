-- What new follows of a user came to, in the bytes of the model: written by the user's own follows, gone with the user.
ALTER TABLE users ADD COLUMN quota bytea;
-- How often an edge ended lately.
CREATE INDEX history_edges ON history (follower, target, ended);
