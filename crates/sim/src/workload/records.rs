//! Records of a table as messages: what an average over those that arrived says of all.

use std::env;
use std::path::{Path, PathBuf};

use crate::suggest;
use crate::text_file;

/// The variable that names the folder of paths beginning with `$PLIANT_DATA/`.
pub const DATA_FOLDER: &str = "PLIANT_DATA";

/// The lines of a table, each a message, with the value of one column.
#[derive(Clone, PartialEq, Debug)]
pub struct Records {
    /// Bytes of each line with its end.
    sizes: Vec<u32>,
    values: Vec<f64>,
    mean: f64,
}

impl Records {
    /// Reads a CSV table without quotes: a header, then a line per record. `column` names the value, a number.
    pub fn read(path: &str, column: &str, directory: &Path) -> Result<Self, String> {
        let file = data_path(path)?.unwrap_or_else(|| directory.join(path));
        let text = text_file::read_table(&file).map_err(|error| format!("{path}: {error}"))?;
        Self::parse(path, &text, column)
    }

    fn parse(path: &str, text: &str, column: &str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate();
        let (_, header) = lines.next().ok_or_else(|| format!("{path}: is empty"))?;
        let names: Vec<&str> = header.split(',').collect();
        let place = names.iter().position(|name| *name == column);
        let place = place
            .ok_or_else(|| format!("{path}: no column \"{column}\"{}", suggest::hint(column, names.iter().copied())))?;
        let (mut sizes, mut values) = (Vec::new(), Vec::new());
        for (index, line) in lines {
            let value = line.split(',').nth(place).and_then(|cell| cell.parse::<f64>().ok());
            let value = value.filter(|value| value.is_finite());
            values.push(value.ok_or_else(|| format!("{path}:{}: column {column} holds no number", index + 1))?);
            sizes.push(u32::try_from(line.len() + 1).map_err(|_| format!("{path}:{}: is too long", index + 1))?);
        }
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        if mean == 0.0 || values.is_empty() {
            return Err(format!("{path}: column {column} needs a mean other than 0"));
        }
        Ok(Self { sizes, values, mean })
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.sizes.len() as u32
    }

    /// Bytes of the record with this number.
    pub fn bytes(&self, number: u32) -> u32 {
        self.sizes[number as usize]
    }

    /// The value of the record with this number.
    pub fn value(&self, number: u32) -> f64 {
        self.values[number as usize]
    }

    /// The mean value of all, never 0.
    pub fn mean(&self) -> f64 {
        self.mean
    }
}

/// What `$PLIANT_DATA/NAME` stands for; `None` of other paths.
fn data_path(path: &str) -> Result<Option<PathBuf>, String> {
    let Some(name) = path.strip_prefix('$').and_then(|path| path.strip_prefix(DATA_FOLDER)?.strip_prefix('/')) else {
        return Ok(None);
    };
    let folder = env::var_os(DATA_FOLDER).ok_or_else(|| format!("set {DATA_FOLDER} to the folder that has {name}"))?;
    Ok(Some(Path::new(&folder).join(name)))
}

/// Which of the files `names` are not in the folder of [`DATA_FOLDER`], in a line; `None` if all are there.
pub fn missing_data(names: &[String]) -> Option<String> {
    let is_there =
        |name: &&String| matches!(data_path(&format!("${DATA_FOLDER}/{name}")), Ok(Some(path)) if path.is_file());
    let missing: Vec<&str> = names.iter().filter(|name| !is_there(name)).map(String::as_str).collect();
    (!missing.is_empty()).then(|| format!("needs {} in the folder that {DATA_FOLDER} names", missing.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages() {
        let records = Records::parse("t.csv", "zone,miles\nA,1.5\nLong Island,2.5\n", "miles").unwrap();
        assert_eq!((records.count(), records.bytes(0), records.bytes(1)), (2, 6, 16));
        assert_eq!((records.value(1), records.mean()), (2.5, 2.0));
    }

    #[test]
    fn errors_name_line_and_column() {
        for (text, column, expected) in [
            ("", "miles", "t.csv: is empty"),
            ("zone,miles\n", "fare", "no column \"fare\", there are: zone, miles"),
            ("zone,miles\nA,1\nB,far\n", "miles", "t.csv:3: column miles"),
            ("zone,miles\n", "miles", "a mean other than 0"),
        ] {
            let error = Records::parse("t.csv", text, column).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(missing_data(&["no such file".to_owned()]).unwrap().contains("no such file"));
        assert_eq!(missing_data(&[]), None);
    }
}
