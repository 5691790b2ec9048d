//! Many lists of posts as one, newest first: what a feed is made of, wherever its parts are kept.

use std::{collections::BinaryHeap, time::Instant};

use entourage_model::{Key, RecordId, Result, Space, Version};

use super::{Entry, timelines::Stretch};
use crate::Feeds;

/// How many posts of one author are read at once.
const HEAD: usize = 32;
/// How many authors are asked for at once.
const AUTHORS_AT_ONCE: usize = 100;

/// Where entries come from.
#[derive(Debug)]
enum Source {
    /// All of them, newest last.
    Listed(Vec<Entry>),
    Author {
        author: Key,
        stretch: Stretch,
    },
    Inbox {
        reader: Key,
        entries: Vec<Entry>,
        floor: Version,
    },
}

impl Source {
    fn pop(&mut self) -> Option<Entry> {
        match self {
            Self::Listed(entries) | Self::Inbox { entries, .. } => entries.pop(),
            Self::Author { author, stretch } => stretch.posts.pop().map(|post| Entry { post, author: *author }),
        }
    }
}

/// Entries of several sources, merged as they are asked for.
#[derive(Debug)]
pub(super) struct Merge {
    sources: Vec<Source>,
    /// The next entry of each source that has one, and which source that is.
    heads: BinaryHeap<(Entry, usize)>,
    /// Everything above has been given out.
    below: Version,
    /// Not every author could be asked in time.
    pub(super) is_partial: bool,
}

impl Merge {
    pub(super) const fn new(below: Version) -> Self {
        Self { sources: Vec::new(), heads: BinaryHeap::new(), below, is_partial: false }
    }

    /// Entries newest first.
    pub(super) fn add_entries(&mut self, mut entries: Vec<Entry>) {
        entries.retain(|entry| entry.post < self.below);
        entries.sort_unstable();
        self.add(Source::Listed(entries));
    }

    /// An inbox down to its floor, as far as it was read.
    pub(super) fn add_inbox(&mut self, reader: Key, mut entries: Vec<Entry>, floor: Version) {
        entries.reverse();
        self.add(Source::Inbox { reader, entries, floor });
    }

    fn add(&mut self, mut source: Source) {
        let head = source.pop();
        if let Some(head) = head {
            self.heads.push((head, self.sources.len()));
        }
        self.sources.push(source);
    }

    fn add_author(&mut self, author: Key, mut stretch: Stretch) {
        stretch.posts.reverse();
        self.add(Source::Author { author, stretch });
    }
}

impl Feeds {
    /// Adds the posts of authors. Those whom nobody read lately are looked up in the store, many at once; past the
    /// deadline the rest is left out, and the merge says so.
    pub(super) async fn add_authors(
        &self,
        merge: &mut Merge,
        authors: &[Key],
        deadline: Option<Instant>,
    ) -> Result<()> {
        let mut unknown = Vec::new();
        for &author in authors {
            match self.feed.timelines.below(author, merge.below, HEAD) {
                Some(stretch) if stretch.posts.is_empty() && stretch.is_end => {}
                Some(stretch) => merge.add_author(author, stretch),
                None => unknown.push(author),
            }
        }
        for authors in unknown.chunks(AUTHORS_AT_ONCE) {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                merge.is_partial = true;
                break;
            }
            for (author, stretch) in authors.iter().zip(self.read_authors(authors, merge.below).await?) {
                if !stretch.posts.is_empty() {
                    merge.add_author(*author, stretch);
                }
            }
        }
        Ok(())
    }

    /// From the store; kept when it is the beginning.
    async fn read_authors(&self, authors: &[Key], below: Version) -> Result<Vec<Stretch>> {
        let asked: Vec<_> = authors.iter().map(|author| self.feed.timelines.ask(*author)).collect();
        let after = (below != Version::MAX).then(|| RecordId::of_version(below));
        let after = after.as_ref().map_or(RecordId::BELOW_VERSIONS, RecordId::as_bytes);
        let found = self.context.store.scan_each(Space::Post, authors, Some(after), HEAD).await?;
        let mut stretches = Vec::with_capacity(authors.len());
        for ((author, asked), records) in authors.iter().zip(asked).zip(found) {
            let posts: Vec<Version> = records.iter().filter_map(|record| record.id.version()).collect();
            let is_end = records.len() < HEAD;
            if below == Version::MAX {
                self.feed.timelines.keep(*author, asked, &posts, is_end);
            }
            stretches.push(Stretch { posts, is_end });
        }
        Ok(stretches)
    }

    /// The newest entry not given out yet. An inbox that went away, or whose floor rose, ends where it was last seen
    /// to be complete: `floor` rises to there.
    pub(super) async fn next_entry(&self, merge: &mut Merge, floor: &mut Version) -> Result<Option<Entry>> {
        while let Some((entry, index)) = merge.heads.pop() {
            self.refill(merge, index, entry.post, floor).await?;
            if let Some(next) = merge.sources[index].pop() {
                merge.heads.push((next, index));
            }
            // The same post by several ways is one post.
            if entry.post < merge.below {
                merge.below = entry.post;
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    async fn refill(&self, merge: &mut Merge, index: usize, below: Version, at: &mut Version) -> Result<()> {
        match &mut merge.sources[index] {
            Source::Author { author, stretch } if stretch.posts.is_empty() && !stretch.is_end => {
                let author = *author;
                let found = match self.feed.timelines.below(author, below, HEAD) {
                    Some(stretch) => stretch,
                    None => self.read_authors(&[author], below).await?.pop().unwrap_or_default(),
                };
                if let Source::Author { stretch, .. } = &mut merge.sources[index] {
                    *stretch = found;
                    stretch.posts.reverse();
                }
            }
            Source::Inbox { reader, entries, floor } if entries.is_empty() && *floor < below => {
                match self.feed.inboxes.read(*reader, below, HEAD).await? {
                    Some(slice) => {
                        *floor = slice.floor;
                        *entries = slice.entries;
                        entries.reverse();
                        *at = (*at).max(slice.floor);
                    }
                    // Complete down to here.
                    None => {
                        *floor = below;
                        *at = (*at).max(Version::from_bits(below.bits().saturating_sub(1)));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}
