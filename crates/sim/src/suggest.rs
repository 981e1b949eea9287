//! The nearest name for one that is not known: one rule for keys, values, names and paths.

use std::cmp::Reverse;

/// Most names that a message lists.
const LISTED: usize = 40;

/// Says that `name` is not known as a `what`, and offers the nearest of `names`, or all of them.
pub fn unknown(what: &str, name: &str, names: &[String]) -> String {
    format!("unknown {what} `{name}`{}", hint(name, names.iter().map(String::as_str)))
}

/// The end of a message about a name that is not known: the nearest of `names`, or all of them.
pub(crate) fn hint<'n>(name: &str, names: impl Iterator<Item = &'n str> + Clone) -> String {
    match nearest(name, names.clone()) {
        Some(near) => format!(", did you mean `{near}`?"),
        None if names.clone().next().is_none() => String::new(),
        None => format!(", there are: {}", names.take(LISTED).collect::<Vec<_>>().join(", ")),
    }
}

/// The name that a message with a hint offers, if it offers one.
pub fn offered(message: &str) -> Option<&str> {
    message.split_once("did you mean `")?.1.split_once("`?").map(|(name, _)| name)
}

/// The name most like `name`, if any is like it at all: few letters apart, or beginning alike. Two letters in each
/// other's place are one mistake (Damerau's distance), and likelier than a letter too many.
pub fn nearest<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let letters = sorted_letters(name);
    let judge = |candidate: &'n str| {
        // Who says plus by a letter means it.
        let spelt = strsim::damerau_levenshtein(name, &candidate.replace('+', "p"));
        let edits = strsim::damerau_levenshtein(name, candidate).min(spelt);
        (edits, strsim::jaro_winkler(name, candidate), candidate)
    };
    let alike = |&(edits, likeness, _): &(usize, f64, &str)| edits <= (letters.len() / 3).max(1) || likeness >= 0.8;
    // `hosts` is likelier the beginning of `hosts_per_leaf` than a `host_link` with other letters.
    let continues =
        |candidate: &str| name.len() > 2 && candidate.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'));
    let better = |a: &(usize, f64, &str), b: &(usize, f64, &str)| {
        let reordered = |candidate: &str| Reverse(sorted_letters(candidate) == letters);
        let by_letters = a.0.cmp(&b.0).then_with(|| reordered(a.2).cmp(&reordered(b.2)));
        continues(b.2).cmp(&continues(a.2)).then(by_letters).then(b.1.total_cmp(&a.1))
    };
    names.into_iter().map(judge).filter(alike).min_by(better).map(|(_, _, candidate)| candidate)
}

fn sorted_letters(name: &str) -> Vec<char> {
    let mut letters: Vec<char> = name.chars().collect();
    letters.sort_unstable();
    letters
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::TransportName;
    use crate::workload::BUILT_IN;

    /// One slip of the hand leads back: letters swapped, left out, doubled or wrong.
    #[test]
    fn slips_lead_to_the_name_that_was_meant() {
        let transports = || TransportName::all_built_in().map(TransportName::name);
        for (slip, meant) in [
            ("dcctp", "dctcp"),
            ("dctpc", "dctcp"),
            ("dtcp", "dctcp"),
            ("dccpp", "dccp"),
            ("cubbic", "cubic"),
            ("cuibc", "cubic"),
            ("flexpas", "flexpass"),
        ] {
            assert_eq!(nearest(slip, transports()), Some(meant), "{slip}");
        }
        assert_eq!(nearest("web_serch", BUILT_IN.iter().map(|(name, _)| *name)), Some("web_search"));
        assert_eq!(nearest("ledbatpp", transports()), Some("ledbat++"));
        assert_eq!(nearest("hosts", ["host_link", "hosts_per_leaf", "host_delay"]), Some("hosts_per_leaf"));
        assert_eq!(nearest("xyzzy", transports()), None);
    }

    /// Any two neighbouring letters of any transport's name swapped lead back to it, though other names are as near.
    #[test]
    fn swapped_letters_lead_back() {
        let names: Vec<&str> = TransportName::all_built_in().map(TransportName::name).collect();
        for name in &names {
            for at in 1..name.len() {
                let mut swapped: Vec<char> = name.chars().collect();
                swapped.swap(at - 1, at);
                let swapped: String = swapped.into_iter().collect();
                assert_eq!(nearest(&swapped, names.iter().copied()), Some(*name), "{swapped}");
            }
        }
    }

    #[test]
    fn where_nothing_is_near_all_names_are_told() {
        assert_eq!(hint("zzz", ["a", "b"].into_iter()), ", there are: a, b");
        assert_eq!(hint("zzz", [].into_iter()), "");
        assert_eq!(unknown("key", "laod", &["load".to_owned()]), "unknown key `laod`, did you mean `load`?");
        assert_eq!(offered("a.toml:1: unknown key `laod`, did you mean `load`?"), Some("load"));
        assert_eq!(offered(&unknown("key", "zzz", &["load".to_owned()])), None);
    }
}
