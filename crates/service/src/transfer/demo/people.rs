//! The people of the demo: a hundred first names with a hundred last names.

const FIRST: &str = "Ada Alba Amir Anna Arun Bea Ben Björn Carla Chen Clara Dana Dario David Diego Dina Edda Elif Emil \
    Emma Eva Farid Finn Flora Frida Gita Goran Greta Hana Hugo Ida Igor Ilse Ines Ivo Jan Jana Jin Joao Jonas Juri \
    Kaito Karim Kira Lars Laura Leila Lena Leo Lia Lina Luca Luis Maja Marc Maria Marta Max Mei Mia Mila Mina Nadia \
    Nils Nina Noah Nora Olga Omar Oskar Pablo Paul Pia Priya Rami Rana Raul Rita Rosa Ruth Sara Sena Siri Sofia Sven \
    Tara Teo Theo Tim Tina Ugo Uma Vera Vito Wei Yara Yuki Yusuf Zara Zoe";

const LAST: &str = "Abe Adams Ali Alves Andersen Arslan Bauer Becker Berg Bianchi Blanc Bose Braun Brown Carter Castro \
    Chan Cohen Costa Cruz Dahl Das Demir Diaz Dubois Duran Evans Fabre Ferrari Fischer Flores Fuchs Garcia Gomez Gray \
    Gruber Haas Hansen Hill Hoffmann Huang Ibrahim Ito Jansen Jensen Jones Kaya Keller Khan Kim Klein Kovac Kumar Lang \
    Larsen Lee Lehmann Li Lopez Mancini Marino Martin Meyer Mori Moreau Mueller Nagy Nakamura Nguyen Novak Okafor Olsen \
    Park Patel Perez Petit Popov Ricci Rossi Roux Russo Santos Sato Schmidt Shah Silva Singh Smith Suzuki Tanaka Torres \
    Tran Vargas Vogel Wagner Wang Weber Wolf Yilmaz Zhang";

pub(super) struct Person {
    pub(super) id: String,
    pub(super) name: String,
}

/// Everybody, in an order in which neighbours share neither name.
pub(super) fn people() -> Vec<Person> {
    let (first, last): (Vec<&str>, Vec<&str>) = (FIRST.split_whitespace().collect(), LAST.split_whitespace().collect());
    let mut people = Vec::with_capacity(first.len() * last.len());
    for turn in 0..last.len() {
        for (index, first) in first.iter().enumerate() {
            let last = last.get((turn + index) % last.len()).copied().unwrap_or_default();
            let id = format!("{first}-{last}").to_lowercase();
            people.push(Person { id, name: format!("{first} {last}") });
        }
    }
    people
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_people_have_ids_of_their_own() {
        let people = people();
        let mut ids: Vec<_> = people.iter().map(|person| person.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((people.len(), ids.len()), (10_000, 10_000));
    }
}
