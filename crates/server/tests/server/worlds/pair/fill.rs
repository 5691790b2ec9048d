//! People and things in place of what stands for them in a line, the same for both worlds.

use rand::{RngExt, seq::IndexedRandom};
use serde_json::{Value, json};

use super::Pair;

/// How many pairs are checked at once.
const PAIRS: usize = 150;

impl Pair {
    /// Mostly somebody of whom there is a secret; now and then nobody at all.
    fn anybody(&mut self) -> String {
        let chance = self.random.random_range(0..100);
        let all = self.cast.everybody();
        let from = if chance < 70 { &self.plan.focus } else { &all };
        if chance > 96 { "nobody".to_owned() } else { from.choose(&mut self.random).unwrap().clone() }
    }

    /// The line for each world: what a world has made has the id that world gave it.
    pub(super) fn filled(&mut self, template: &str) -> [String; 2] {
        let (viewer, one, other) = (self.cast.viewer.clone(), self.anybody(), self.anybody());
        let mut line = template.replace("{v}", &viewer).replace("{u}", &one).replace("{w}", &other);
        if line.contains("{key}") {
            let side = ["followers", "following"].choose(&mut self.random).unwrap();
            line = line.replace("{key}", &format!("{side}:{}", self.anybody()));
        }
        if line.contains("{pairs}") {
            let pairs: Vec<[String; 2]> = (0..PAIRS).map(|_| [self.anybody(), self.anybody()]).collect();
            line = line.replace("{pairs}", &json!(pairs).to_string());
        }
        while line.contains("{known}") {
            let id = self.anybody();
            if !self.cast.blocked.contains(&id) {
                line = line.replace("{known}", &id);
            }
        }
        let line = line.replace("{all}", &json!(self.cast.everybody()).to_string());
        let mut lines = [line.clone(), line];
        if template.contains("{g}") {
            let nth = self.random.random_range(0..4);
            self.fill(&mut lines, "{g}", &format!("/users/{viewer}/groups"), nth, "7");
        }
        if template.contains("{n}") {
            self.fill(&mut lines, "{n}", &format!("/users/{viewer}/notifications"), 0, "7.follow");
        }
        if template.contains("{p}") {
            let [first, second] = self.posts.choose(&mut self.random).unwrap();
            lines = [lines[0].replace("{p}", first), lines[1].replace("{p}", second)];
        }
        lines
    }

    /// With the id of one of a list of the viewer's own.
    fn fill(&self, lines: &mut [String; 2], name: &str, path: &str, nth: usize, none: &str) {
        for (line, world) in lines.iter_mut().zip(&self.worlds) {
            let rows: Value = world.service(&format!("GET {path}")).body["data"].take();
            *line = line.replace(name, rows[nth]["id"].as_str().unwrap_or(none));
        }
    }
}
