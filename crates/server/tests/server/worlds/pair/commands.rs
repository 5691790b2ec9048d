//! What the viewer asks over RESP: lines for every command of the server. One without a row fails.
//!
//! As for routes, and `{key}` is a list of anybody's: `followers:…` or `following:…`. Lines that begin with `walk` go on with the
//! cursor of their reply until there is none.

use super::row::{Row, elsewhere, process, reads, writes};

pub(crate) const ROWS: &[Row] = &[
    elsewhere("AUTH"),
    process("CLIENT", &["CLIENT INFO", "CLIENT LIST"]),
    process("COMMAND", &["COMMAND COUNT"]),
    process("CONFIG", &["CONFIG GET *"]),
    reads("DISCARD", &["MULTI", "SCARD {key}", "DISCARD"]),
    reads("ECHO", &["ECHO hello"]),
    reads("EG.AS", &["EG.AS"]),
    reads("EG.FEED", &["walk EG.FEED {v} LIMIT 1", "walk EG.FEED {v} LIMIT 5", "EG.FEED {u}"]),
    writes("EG.FOLLOW", &["EG.FOLLOW {v} {u}", "EG.FOLLOW {u} {v}", "EG.FOLLOW {v} {w} QUIET"]),
    process("EG.HELP", &["EG.HELP"]),
    reads(
        "EG.LIST",
        &[
            "walk EG.LIST {key} LIMIT 1",
            "walk EG.LIST {key} LIMIT 2",
            "walk EG.LIST {key} LIMIT 5",
            "walk EG.LIST followers:{v} LIMIT 1",
            "walk EG.LIST followers:{v} LIMIT 5",
            "walk EG.LIST followers:{v}",
        ],
    ),
    reads("EG.RELATION", &["EG.RELATION {v} {u}", "EG.RELATION {u} {v}", "EG.RELATION {u} {w}"]),
    reads("EG.SUGGEST", &["EG.SUGGEST {v}", "EG.SUGGEST {v} LIMIT 2", "EG.SUGGEST {u}"]),
    reads("EG.TOKEN", &["EG.TOKEN"]),
    writes("EG.UNFOLLOW", &["EG.UNFOLLOW {v} {u}", "EG.UNFOLLOW {u} {v}"]),
    reads("EXEC", &["MULTI", "SMEMBERS {key}", "ZSCORE followers:{v} {u}", "EXISTS followers:{v}", "EXEC"]),
    reads("EXISTS", &["EXISTS followers:{u}", "EXISTS following:{u}", "EXISTS followers:{v} is_following:{u}:{v}"]),
    reads("EXPIRE", &["EXPIRE {key} 10"]),
    reads(
        "GET",
        &["GET is_following:{u}:{v}", "GET is_following:{u}:{w}", "GET follower_count:{u}", "GET following_count:{u}"],
    ),
    process("HELLO", &["HELLO"]),
    process("INFO", &["INFO"]),
    reads("LRANGE", &["LRANGE suggestions:{v} 0 -1", "LRANGE suggestions:{v} 0 1", "LRANGE suggestions:{u} 0 -1"]),
    reads("MGET", &["MGET is_following:{u}:{v} follower_count:{v} following_count:{u} is_following:{w}:{u}"]),
    reads("MULTI", &["MULTI", "SADD following:{v} {u}", "EXEC"]),
    reads("PING", &["PING"]),
    elsewhere("QUIT"),
    elsewhere("RESET"),
    writes("SADD", &["SADD following:{v} {u} {w}", "SADD following:{u} {v}"]),
    reads(
        "SCARD",
        &[
            "SCARD {key}",
            "SCARD followers:{v}",
            "SCARD following:{v}",
            "SCARD mutual:{u}",
            "SCARD common_following:{u}:{w}",
        ],
    ),
    reads("SELECT", &["SELECT 0"]),
    reads(
        "SINTER",
        &[
            "SINTER following:{u} following:{w}",
            "SINTER following:{v} followers:{u}",
            "SINTER following:{u} followers:{u}",
            "SINTER followers:{u} followers:{w}",
            "SINTER mutual:{u} followers:{v}",
            "SINTER follows:{u} following:{w} following:{v}",
        ],
    ),
    reads(
        "SINTERCARD",
        &[
            "SINTERCARD 2 following:{u} following:{w}",
            "SINTERCARD 2 following:{v} followers:{v}",
            "SINTERCARD 2 followers:{u} followers:{w}",
        ],
    ),
    reads(
        "SISMEMBER",
        &[
            "SISMEMBER following:{u} {v}",
            "SISMEMBER followers:{u} {w}",
            "SISMEMBER mutual:{u} {w}",
            "SISMEMBER block:{u} {v}",
            "SISMEMBER common_following:{u}:{v} {w}",
        ],
    ),
    reads(
        "SMEMBERS",
        &[
            "SMEMBERS {key}",
            "SMEMBERS followers:{v}",
            "SMEMBERS follows:{u}",
            "SMEMBERS block:{u}",
            "SMEMBERS block:{v}",
            "SMEMBERS mutual:{u}",
            "SMEMBERS mutual:{v}",
            "SMEMBERS common_following:{u}:{w}",
            "SMEMBERS common_following:{v}:{u}",
        ],
    ),
    reads("SMISMEMBER", &["SMISMEMBER followers:{v} {u} {w}", "SMISMEMBER following:{u} {v} {w}"]),
    writes("SREM", &["SREM following:{v} {u} {w}", "SREM following:{u} {v}"]),
    reads(
        "SSCAN",
        &[
            "walk SSCAN {key} 0 COUNT 1",
            "walk SSCAN {key} 0 COUNT 2",
            "walk SSCAN followers:{v} 0 COUNT 1",
            "walk SSCAN followers:{v} 0 COUNT 5",
            "walk SSCAN followers:{v} 0",
        ],
    ),
    reads("TTL", &["TTL {key}"]),
    reads("TYPE", &["TYPE {key}"]),
    reads("UNWATCH", &["UNWATCH"]),
    reads("WATCH", &["WATCH {key}"]),
    reads("ZCARD", &["ZCARD {key}", "ZCARD followers:{v}", "ZCARD feed:{v}"]),
    reads(
        "ZINTER",
        &[
            "ZINTER 2 following:{u} following:{w} WITHSCORES",
            "ZINTER 2 followers:{u} following:{v}",
            "ZINTER 2 followers:{u} followers:{v} WITHSCORES",
        ],
    ),
    reads(
        "ZINTERCARD",
        &["ZINTERCARD 2 following:{u} following:{w}", "ZINTERCARD 2 followers:{u} followers:{v} LIMIT 1"],
    ),
    reads(
        "ZRANGE",
        &[
            "ZRANGE {key} 0 -1 REV WITHSCORES",
            "ZRANGE {key} 0 -1 WITHSCORES",
            "ZRANGE followers:{v} 0 0",
            "ZRANGE followers:{v} 1 2",
            "ZRANGE feed:{v} +inf -inf BYSCORE REV LIMIT 0 3",
            "ZRANGE feed:{v} 0 -1",
        ],
    ),
    reads(
        "ZRANGEBYSCORE",
        &["ZRANGEBYSCORE {key} -inf +inf WITHSCORES LIMIT 1 2", "ZRANGEBYSCORE followers:{v} -inf +inf"],
    ),
    reads(
        "ZREVRANGE",
        &["ZREVRANGE {key} 0 -1 WITHSCORES", "ZREVRANGE {key} 1 2", "ZREVRANGE feed:{v} 0 -1 WITHSCORES"],
    ),
    reads(
        "ZREVRANGEBYSCORE",
        &["ZREVRANGEBYSCORE {key} +inf -inf WITHSCORES LIMIT 1 2", "ZREVRANGEBYSCORE followers:{v} +inf -inf"],
    ),
    reads("ZSCORE", &["ZSCORE followers:{v} {u}", "ZSCORE {key} {w}", "ZSCORE feed:{v} {p}"]),
];
