//! Columns in memory, as they grow by rows.

use std::collections::BTreeMap;

use super::value::{Kind, Value};

/// Words that are looked for one by one before all are searched. Names of groups and states are fewer.
const FIRST_WORDS: usize = 8;

/// The values of a column. A value that is not present is 0 among the values.
#[derive(Clone, PartialEq, Debug)]
pub enum ColumnValues {
    /// Integers.
    Integer(Vec<u64>),
    /// Integers, where there are some.
    OptionalInteger {
        /// A value for each row.
        values: Vec<u64>,
        /// Whether the row has it.
        present: Vec<bool>,
    },
    /// Numbers, where there are some.
    OptionalNumber {
        /// A value for each row.
        values: Vec<f64>,
        /// Whether the row has it.
        present: Vec<bool>,
    },
    /// Text, of which there are few different words.
    Text {
        /// The different words, in the order of their first rows.
        words: Vec<String>,
        /// The index of each row's word.
        rows: Vec<u32>,
    },
}

/// A column that grows.
pub(crate) struct Growing {
    pub(crate) values: ColumnValues,
    /// Index of each word of a text, by the word.
    words: BTreeMap<String, u32>,
}

impl Growing {
    pub(crate) fn new(kind: Kind, rows: usize) -> Self {
        let values = match kind {
            Kind::Integer => ColumnValues::Integer(Vec::with_capacity(rows)),
            Kind::OptionalInteger => {
                ColumnValues::OptionalInteger { values: Vec::with_capacity(rows), present: Vec::with_capacity(rows) }
            }
            Kind::OptionalNumber => {
                ColumnValues::OptionalNumber { values: Vec::with_capacity(rows), present: Vec::with_capacity(rows) }
            }
            Kind::Text => ColumnValues::Text { words: Vec::new(), rows: Vec::with_capacity(rows) },
        };
        Self { values, words: BTreeMap::new() }
    }

    /// Takes the values of further rows. Where the kind of all of them is known to the compiler, this is a loop over numbers.
    #[inline(always)]
    pub(crate) fn extend<'a>(&mut self, given: impl Iterator<Item = Value<'a>>) {
        match &mut self.values {
            ColumnValues::Integer(values) => values.extend(given.map(|value| value.integer())),
            ColumnValues::OptionalInteger { values, present } => {
                for value in given.map(|value| value.optional_integer()) {
                    values.push(value.unwrap_or_default());
                    present.push(value.is_some());
                }
            }
            ColumnValues::OptionalNumber { values, present } => {
                for value in given.map(|value| value.optional_number()) {
                    values.push(value.unwrap_or_default());
                    present.push(value.is_some());
                }
            }
            ColumnValues::Text { words, rows } => {
                rows.extend(given.map(|value| index_of(value.text(), words, &mut self.words)));
            }
        }
    }
}

/// The index of a word, which is added if it is new.
fn index_of(word: &str, words: &mut Vec<String>, indices: &mut BTreeMap<String, u32>) -> u32 {
    if let Some(index) = words.iter().take(FIRST_WORDS).position(|known| known == word) {
        return index as u32;
    }
    if let Some(&index) = indices.get(word) {
        return index;
    }
    let index = words.len() as u32;
    words.push(word.to_owned());
    indices.insert(word.to_owned(), index);
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words beyond those that are looked for one by one keep their indices.
    #[test]
    fn many_words_are_told_apart() {
        let (mut words, mut indices) = (Vec::new(), BTreeMap::new());
        for round in 0..2 {
            for number in 0..40u32 {
                assert_eq!(index_of(&format!("port {number}"), &mut words, &mut indices), number, "round {round}");
            }
        }
        assert_eq!(words.len(), 40);
    }
}
