//! The Rust driver with its default handshake, in both protocols.

use redis::{Commands, ProtocolVersion};

use crate::kit::{
    credentials::Credentials,
    server::{Server, memory_store},
};

#[test]
fn the_driver_works_as_with_redis() {
    let credentials = Credentials::new();
    let rules = entourage_service::Rules { auto_create: true, ..Default::default() };
    let server = Server::behind(credentials.front(), memory_store(1), rules);
    for protocol in ["resp2", "resp3"] {
        let url = format!("redis://:{}@{}/0?protocol={protocol}", credentials.service_key, server.resp);
        let client = redis::Client::open(url).unwrap();
        let wanted = if protocol == "resp3" { ProtocolVersion::RESP3 } else { ProtocolVersion::RESP2 };
        assert_eq!(client.get_connection_info().redis_settings().protocol(), wanted);
        let mut connection = client.get_connection().unwrap();
        let (a, key) = (format!("{protocol}-a"), format!("following:{protocol}-a"));
        assert_eq!(connection.sadd::<_, _, usize>(&key, &["b", "c"]).unwrap(), 2);
        assert!(connection.sismember::<_, _, bool>(&key, "b").unwrap());
        assert_eq!(connection.smismember::<_, _, Vec<bool>>(&key, &["b", "x"]).unwrap(), [true, false]);
        let mut members: Vec<String> = connection.smembers(&key).unwrap();
        members.sort_unstable();
        assert_eq!(members, ["b", "c"]);
        let scanned: Vec<String> = connection.sscan::<_, String>(&key).unwrap().map(Result::unwrap).collect();
        assert_eq!(scanned.len(), 2);
        let scored: Vec<(String, f64)> = connection.zrevrange_withscores(&key, 0, -1).unwrap();
        assert!(scored.len() == 2 && scored.iter().all(|(_, score)| *score > 1e12), "{scored:?}");
        assert_eq!(connection.get::<_, i64>(format!("following_count:{a}")).unwrap(), 2);
        assert_eq!(connection.get::<_, Option<i64>>("follower_count:nobody").unwrap(), None);
        let (is, count): (bool, usize) =
            redis::pipe().atomic().sismember(&key, "c").scard(&key).query(&mut connection).unwrap();
        assert!(is && count == 2);
        let error = redis::cmd("EG.FOLLOW").arg(&a).arg(&a).query::<()>(&mut connection).unwrap_err();
        assert_eq!(error.code(), Some("SELFFOLLOW"));
        assert_eq!(connection.srem::<_, _, usize>(&key, &["b", "c"]).unwrap(), 2);
    }
    let wrong = redis::Client::open(format!("redis://:wrong@{}", server.resp)).unwrap();
    assert!(wrong.get_connection().is_err());
}
