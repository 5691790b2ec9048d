//! What the people of the demo say, and who says something next.

use entourage_model::{Error, Result, UserId};
use serde_json::json;

use super::{people::people, random::Random};
use crate::{Actor, Call, Limit, Transfer};

const SEED: u64 = 0x00e7_7001;
/// The best known people write, and the best known of them write most.
pub(super) const AUTHORS: usize = 3_000;

const BEGINNINGS: &[&str] = &[
    "Thinking about",
    "Still thinking about",
    "Today is all about",
    "Cannot stop talking about",
    "Quite happy with",
    "A lot to learn from",
    "Slowly getting used to",
    "Looking forward to",
    "Very proud of",
    "Nobody told me about",
    "A whole evening for",
    "Somebody should write a song about",
];

const THINGS: &[&str] = &[
    "the new bakery on the corner",
    "my first sourdough",
    "a long run along the river",
    "that book everybody recommends",
    "the garden after the rain",
    "an old map of the city",
    "the night train to Vienna",
    "our small choir",
    "a bicycle from 1974",
    "the exhibition downtown",
    "a week without a phone",
    "the last episode",
    "swimming before breakfast",
    "the market on Saturday",
    "my grandmother's recipes",
    "the view from the tower",
    "a concert with twelve listeners",
    "two kittens and one sofa",
];

const ENDS: &[&str] = &[
    ".",
    ".",
    ". Highly recommended.",
    ". Who else?",
    ". More tomorrow.",
    ". No regrets.",
    ". Ask me anything.",
    ". What do you think?",
    ". It was worth the wait.",
    ". Do not tell anybody.",
    " ☀️",
    "!",
];

/// A post that was written before anybody looked.
pub(super) struct Said {
    pub(super) author: usize,
    /// A JSON object.
    pub(super) body: String,
}

/// Everything that was said, oldest first.
pub(super) fn posts() -> Vec<Said> {
    let mut random = Random::new(SEED);
    let mut authors: Vec<usize> =
        (0..AUTHORS).flat_map(|author| std::iter::repeat_n(author, posts_of(author))).collect();
    for last in (1..authors.len()).rev() {
        authors.swap(last, random.below(last as u64 + 1) as usize);
    }
    authors.into_iter().map(|author| Said { author, body: body(&mut random) }).collect()
}

const fn posts_of(author: usize) -> usize {
    match author {
        0..20 => 30,
        20..300 => 8,
        _ => 2,
    }
}

fn body(random: &mut Random) -> String {
    let mut one = |of: &[&'static str]| of.get(random.below(of.len() as u64) as usize).copied().unwrap_or_default();
    json!({ "text": format!("{} {}{}", one(BEGINNINGS), one(THINGS), one(ENDS)) }).to_string()
}

/// Who says what next, while a server with the demo runs.
pub struct DemoTraffic {
    authors: Vec<UserId>,
    /// Whom somebody follows who is watched: every other post is one of theirs.
    followed: Vec<UserId>,
    random: Random,
}

impl DemoTraffic {
    /// How long it is quiet before the next post, in milliseconds: a second, more or less.
    pub fn pause_millis(&mut self) -> u64 {
        500 + self.random.below(1_000)
    }
}

impl Transfer {
    /// Says other things at every start, and enough of them to the one who is watched.
    pub async fn demo_traffic(&self, watched: &str) -> Result<DemoTraffic> {
        let authors = people().into_iter().take(AUTHORS);
        let authors = authors.map(|person| UserId::try_from(person.id.as_str())).collect::<Result<_>>()?;
        let followed =
            self.graph.following(&Call::default(), &UserId::try_from(watched)?, None, Limit::LARGEST).await?;
        let followed = followed.rows.into_iter().map(|row| row.id).collect();
        Ok(DemoTraffic { authors, followed, random: Random::new(SEED ^ self.context.clock.now().since_2000()) })
    }

    /// Somebody writes a post, as they would over a front.
    pub async fn demo_post(&self, traffic: &mut DemoTraffic) -> Result<()> {
        let DemoTraffic { authors, followed, random } = traffic;
        let author = match followed.len() as u64 {
            count @ 1.. if random.below(2) == 0 => followed.get(random.below(count) as usize),
            _ => authors.get(random.rank(authors.len())),
        };
        let author = author.ok_or_else(|| Error::internal("the demo has no authors"))?.clone();
        let call = Call { actor: Actor::User(author), ..Call::default() };
        self.feeds.create_post(&call, &body(random)).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_the_same_every_time() {
        let all = posts();
        assert_eq!(all.len(), 20 * 30 + 280 * 8 + 2_700 * 2);
        let again = posts();
        assert!(all.iter().zip(&again).all(|(one, other)| one.author == other.author && one.body == other.body));
        let mut texts: Vec<&str> = all.iter().map(|said| said.body.as_str()).collect();
        texts.sort_unstable();
        texts.dedup();
        assert!(texts.len() > 1_500, "only {} texts", texts.len());
    }
}
