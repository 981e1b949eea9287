//! `--vary`: the values of a key, and the grid that several keys span.

use pliant_sim::scenario::{Override, number_range};

use crate::error::CliError;

/// A key and the values it takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axis {
    /// The key, which may be a short form.
    pub key: String,
    /// Its values, as they stand behind `--vary KEY=`.
    pub values: Vec<String>,
}

/// One choice of a value for each axis: keys and values.
pub type Choice = Vec<(String, String)>;

impl Axis {
    /// Reads `KEY=a,b,c` or `KEY=START:STOP:STEP`, both ends included.
    pub fn parse(text: &str) -> Result<Self, CliError> {
        let fail = |why: &str| CliError::User(format!("--vary {text}: {why}"));
        let split = text.split_once('=').filter(|(key, values)| !key.trim().is_empty() && !values.trim().is_empty());
        let Some((key, values)) = split else {
            return Err(fail("is not of the form KEY=a,b,c or KEY=START:STOP:STEP"));
        };
        let values = match number_range(values) {
            Some(range) => range.map_err(fail)?,
            None => split_values(values),
        };
        Self { key: key.trim().to_owned(), values }.checked(text)
    }

    /// The axis unless it is refused; `text` is how it was given.
    fn checked(self, text: &str) -> Result<Self, CliError> {
        let fail = |why: &str| Err(CliError::User(format!("--vary {text}: {why}")));
        let values = &self.values;
        if values.is_empty() {
            return fail("has no value");
        }
        if values.iter().any(String::is_empty) {
            return fail("has an empty value");
        }
        if let Some((at, twice)) = values.iter().enumerate().find(|(at, value)| values[..*at].contains(value)) {
            return fail(&format!("value {} repeats `{twice}`", at + 1));
        }
        Ok(self)
    }

    /// The axes that a program has; each value is as in `--set KEY=VALUE`.
    pub fn all(axes: Vec<(String, Vec<String>)>) -> Result<Vec<Self>, CliError> {
        let checked = |(key, values): (String, Vec<String>)| Self { key: key.clone(), values }.checked(&key);
        Self::once_each(axes.into_iter().map(checked).collect::<Result<_, _>>()?)
    }

    /// Reads every axis; no key may come twice.
    pub(crate) fn parse_all(texts: &[String]) -> Result<Vec<Self>, CliError> {
        Self::once_each(texts.iter().map(|text| Self::parse(text)).collect::<Result<_, _>>()?)
    }

    fn once_each(axes: Vec<Self>) -> Result<Vec<Self>, CliError> {
        match axes.iter().enumerate().find(|(at, axis)| axes[..*at].iter().any(|other| other.key == axis.key)) {
            Some((_, axis)) => Err(CliError::User(format!("--vary {}: is given twice", axis.key))),
            None => Ok(axes),
        }
    }
}

/// Every choice of one value per axis, the last axis fastest.
pub fn choices(axes: &[Axis]) -> Vec<Choice> {
    let mut choices = vec![Vec::new()];
    for axis in axes {
        let mut longer = Vec::with_capacity(choices.len() * axis.values.len());
        for choice in &choices {
            for value in &axis.values {
                let mut choice: Choice = choice.clone();
                choice.push((axis.key.clone(), value.clone()));
                longer.push(choice);
            }
        }
        choices = longer;
    }
    choices
}

/// Number of [`choices`], without making them.
pub(crate) fn count(axes: &[Axis]) -> u64 {
    axes.iter().fold(1u64, |count, axis| count.saturating_mul(axis.values.len() as u64))
}

/// A choice as people read it: `load=0.2 queues.plan=strict`.
pub fn label(choice: &[(String, String)]) -> String {
    choice.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

/// A choice as it is laid over a scenario.
pub fn overrides(choice: &[(String, String)]) -> Result<Vec<Override>, CliError> {
    let parse = |(key, value): &(String, String)| Override::parse("--vary", &format!("{key}={value}"));
    Ok(choice.iter().map(parse).collect::<Result<_, _>>()?)
}

/// Splits at commas that are not inside brackets or quotes.
fn split_values(text: &str) -> Vec<String> {
    let (mut values, mut depth, mut quoted) = (vec![String::new()], 0i32, false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                values.push(String::new());
                continue;
            }
            _ => {}
        }
        values.last_mut().expect("there is one").push(c);
    }
    values.into_iter().map(|value| value.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        Axis::parse(text).unwrap().values
    }

    /// Steps of a tenth are exact, and the end belongs to the range.
    #[test]
    fn ranges_are_exact() {
        assert_eq!(values("load=0.2:0.8:0.1"), ["0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8"]);
        assert_eq!(values("x=-1:1:0.5"), ["-1", "-0.5", "0", "0.5", "1"]);
        assert_eq!(values("x=1:6:2"), ["1", "3", "5"]);
    }

    #[test]
    fn lists_keep_brackets_and_quotes() {
        assert_eq!(values("queues.plan=shared, strict"), ["shared", "strict"]);
        assert_eq!(values("x=[1,2],{ a = \"b,c\" }"), ["[1,2]", "{ a = \"b,c\" }"]);
        assert_eq!(values("at=10:20"), ["10:20"], "two numbers are no range");
    }

    #[test]
    fn mistakes_are_refused() {
        for (text, why) in [
            ("load", "KEY=a,b,c"),
            ("load=", "KEY=a,b,c"),
            ("load=0.8:0.2:0.1", "begins above"),
            ("load=0:1:0", "step above 0"),
            ("load=0:1:0.000001", "100000 values"),
            ("load=1,,2", "empty value"),
            ("load=1,2,1", "repeats `1`"),
        ] {
            let error = Axis::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(Axis::parse_all(&["a=1".to_owned(), "a=2".to_owned()]).is_err());
    }

    #[test]
    fn a_grid_has_every_choice() {
        let axes = Axis::parse_all(&["a=1,2".to_owned(), "b=x,y,z".to_owned()]).unwrap();
        let labels: Vec<_> = choices(&axes).iter().map(|choice| label(choice)).collect();
        assert_eq!(labels, ["a=1 b=x", "a=1 b=y", "a=1 b=z", "a=2 b=x", "a=2 b=y", "a=2 b=z"]);
        assert_eq!(count(&axes), 6);
        assert_eq!(choices(&[]).len(), 1);
    }
}
