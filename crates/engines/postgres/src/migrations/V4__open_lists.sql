-- Quiet edges and the others are two ranges of each list's index: what others may page through never walks past what is
-- hidden from them.
DROP INDEX edges_following;
DROP INDEX edges_followers;
CREATE INDEX edges_following ON edges (follower, kind, state, quiet, position DESC, target DESC) WHERE state <> 3;
CREATE INDEX edges_followers ON edges (target, kind, state, quiet, position DESC, follower DESC) WHERE state <> 3;
