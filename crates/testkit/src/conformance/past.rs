//! The history of ended follows.

use entourage_model::{Cause, Kind, Millis, Operation, Reply, State};

use super::{operations::*, pages, settled, world::World};

pub(super) async fn each_end_is_told_once_newest_first(world: World) {
    let [a, b, c] = world.users().await;
    let private = world.private_user().await;
    let made = world.done(follow(a, b)).await.version;
    let first = world.done(unfollow(a, b)).await.version;
    world.done(unfollow(a, b)).await;
    world.done(follow_quietly(a, b)).await;
    let second = world.done(remove_follower(b, a)).await.version;
    let asked = world.done(follow(a, private)).await.version;
    let third = world.done(reject(private, a)).await.version;
    world.done(follow(a, private)).await;
    let fourth = world.done(unfollow(a, private)).await.version;
    world.done(follow(a, private)).await;
    let accepted = world.done(accept(private, a)).await.version;
    let blocked = world.done(block(private, a)).await;
    let fifth = settled::versions(&blocked, world.store.guarantees().derived).last().expect("a follow ends with it");
    world.done(follow(a, c)).await;
    world.done(follow_quietly(a, c)).await;
    world.done(mute(a, c)).await;
    world.done(unmute(a, c)).await;
    for size in [1, 2, 100] {
        let past = pages::read_history(&*world.store, a, size).await.expect("a history");
        let short: Vec<_> = past.iter().map(|ended| (ended.target, ended.ended, ended.cause, ended.state)).collect();
        let expected = [
            (private, fifth, Cause::Block, State::Active),
            (private, fourth, Cause::Follower, State::Pending),
            (private, third, Cause::Target, State::Pending),
            (b, second, Cause::Target, State::Active),
            (b, first, Cause::Follower, State::Active),
        ];
        assert_eq!(short, expected, "at {size} a page");
        assert_eq!((past[0].position, past[0].accepted), (accepted, true));
        assert_eq!((past[2].position, past[2].accepted), (asked, false));
        assert_eq!((past[3].quiet, past[4].quiet, past[4].position), (true, false, made));
    }
    for other in [b, c, private, world.stranger()] {
        assert_eq!(pages::read_history(&*world.store, other, 10).await, Ok(Vec::new()));
    }
    assert!(world.store.scan_history(a, Some(first), 10).await.expect("a history").is_empty());
}

pub(super) async fn a_mute_is_taken_away_when_it_is_over(world: World) {
    let [a, b] = world.users().await;
    let at = Millis::from_unix(1_900_000_000_000);
    let expire = |now| Operation::ExpireMute { actor: a, target: b, now };
    let end = |changed| Reply::Gone { changed };
    assert_eq!(world.done(expire(at)).await.reply, end(false), "there is none");
    world.done(mute_until(a, b, at)).await;
    assert_eq!(world.done(expire(Millis::from_unix(at.to_unix() - 1))).await.reply, end(false), "it is not over");
    world.done(mute(a, b)).await;
    assert_eq!(world.done(expire(at)).await.reply, end(false), "it does not end any more");
    world.done(mute_until(a, b, at)).await;
    assert_eq!(world.done(expire(at)).await.reply, end(true));
    assert_eq!(world.edge(Kind::Mute, a, b).await, None);
}
