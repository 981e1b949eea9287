//! Columns in memory, as they grow by rows.

use std::collections::BTreeMap;

use super::value::{Kind, Value};

/// Words that are looked for one by one before all are searched. Names of groups and states are fewer.
const FIRST_WORDS: usize = 8;

/// The values of a column. A value that is not present is 0 among integers, and not a number among numbers.
///
/// Most columns of most runs are blank, as they are about other transports. These have no memory of their own.
#[derive(Clone, Debug)]
pub enum ColumnValues {
    /// Integers.
    Integer(Vec<u64>),
    /// As many integers, each of them 0.
    Zeros(usize),
    /// As many integers, none of them present.
    AbsentIntegers(usize),
    /// As many numbers, none of them present.
    AbsentNumbers(usize),
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
    /// The values from the first block on that is not blank.
    values: ColumnValues,
    /// Rows of the blank blocks before it, which are not written until another block comes.
    blank: usize,
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
        Self { values, blank: 0, words: BTreeMap::new() }
    }

    /// Takes the values of a block of further rows. Where the kind of all of them is known to the compiler, these are loops
    /// over numbers.
    #[inline(always)]
    pub(crate) fn extend<'a>(&mut self, given: impl ExactSizeIterator<Item = Value<'a>> + Clone) {
        match &mut self.values {
            ColumnValues::Integer(values) => {
                if values.is_empty() {
                    if given.clone().fold(0, |any, value| any | value.integer()) == 0 {
                        self.blank += given.len();
                        return;
                    }
                    values.resize(self.blank, 0);
                }
                values.extend(given.map(|value| value.integer()));
            }
            ColumnValues::OptionalInteger { values, present } => {
                if values.is_empty() {
                    if !given.clone().fold(false, |any, value| any | value.optional_integer().is_some()) {
                        self.blank += given.len();
                        return;
                    }
                    values.resize(self.blank, 0);
                    present.resize(self.blank, false);
                }
                for value in given.map(|value| value.optional_integer()) {
                    values.push(value.unwrap_or_default());
                    present.push(value.is_some());
                }
            }
            ColumnValues::OptionalNumber { values, present } => {
                if values.is_empty() {
                    if !given.clone().fold(false, |any, value| any | value.optional_number().is_some()) {
                        self.blank += given.len();
                        return;
                    }
                    values.resize(self.blank, f64::NAN);
                    present.resize(self.blank, false);
                }
                for value in given.map(|value| value.optional_number()) {
                    values.push(value.unwrap_or(f64::NAN));
                    present.push(value.is_some());
                }
            }
            ColumnValues::Text { words, rows } => {
                rows.extend(given.map(|value| index_of(value.text(), words, &mut self.words)));
            }
            ColumnValues::Zeros(_) | ColumnValues::AbsentIntegers(_) | ColumnValues::AbsentNumbers(_) => {
                unreachable!("a column is blank only once it is finished")
            }
        }
    }

    /// The column, once it has the values of all rows.
    pub(crate) fn finish(self) -> ColumnValues {
        match self.values {
            ColumnValues::Integer(values) if values.is_empty() => ColumnValues::Zeros(self.blank),
            ColumnValues::OptionalInteger { values, .. } if values.is_empty() => {
                ColumnValues::AbsentIntegers(self.blank)
            }
            ColumnValues::OptionalNumber { values, .. } if values.is_empty() => ColumnValues::AbsentNumbers(self.blank),
            values => values,
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

    /// A column whose blocks are blank at its start, later, or all of them.
    fn column(kind: Kind, blocks: &[&[Value<'static>]]) -> ColumnValues {
        let mut growing = Growing::new(kind, 0);
        for block in blocks {
            growing.extend(block.iter().cloned());
        }
        growing.finish()
    }

    /// Blank blocks before others are in the column, blank blocks alone are a count.
    #[test]
    fn blank_blocks_take_no_memory_until_another_comes() {
        let zeros: &[Value<'_>] = &[Value::Integer(0), Value::Integer(0)];
        let mixed: &[Value<'_>] = &[Value::Integer(0), Value::Integer(7)];
        assert!(matches!(column(Kind::Integer, &[]), ColumnValues::Zeros(0)));
        assert!(matches!(column(Kind::Integer, &[zeros, zeros]), ColumnValues::Zeros(4)));
        let ColumnValues::Integer(values) = column(Kind::Integer, &[zeros, mixed, zeros]) else { panic!("not blank") };
        assert_eq!(values, [0, 0, 0, 7, 0, 0]);

        let none: &[Value<'_>] = &[Value::OptionalInteger(None)];
        let some: &[Value<'_>] = &[Value::OptionalInteger(Some(0))];
        assert!(matches!(column(Kind::OptionalInteger, &[none, none]), ColumnValues::AbsentIntegers(2)));
        let found = column(Kind::OptionalInteger, &[none, some, none]);
        let ColumnValues::OptionalInteger { values, present } = found else { panic!("0 is a value") };
        assert_eq!((values, present), (vec![0, 0, 0], vec![false, true, false]));

        let none: &[Value<'_>] = &[Value::OptionalNumber(None)];
        let some: &[Value<'_>] = &[Value::OptionalNumber(Some(0.5))];
        assert!(matches!(column(Kind::OptionalNumber, &[none]), ColumnValues::AbsentNumbers(1)));
        let found = column(Kind::OptionalNumber, &[none, some, none]);
        let ColumnValues::OptionalNumber { values, present } = found else { panic!("0.5 is a value") };
        assert!(values[0].is_nan() && values[2].is_nan(), "what is absent is not a number");
        assert_eq!((values[1], present), (0.5, vec![false, true, false]));
    }

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
