//! Settings: what a user gives by key, declared once.
//!
//! [`settings!`](crate::settings!) declares a struct whose fields are settings. A field's declaration holds everything
//! that is known of the setting: key, type and unit, default, range, meaning and source. Reading a value, refusing one
//! out of range, writing all of them out and describing them in the reference come from that declaration.
//!
//! ```
//! use pliant_proto::settings;
//! use pliant_proto::settings::{Range, Settings, Value};
//! use pliant_proto::time::Span;
//!
//! settings! {
//!     /// Settings of a pacer.
//!     #[derive(Clone, Copy, PartialEq, Debug)]
//!     pub struct PacerConfig {
//!         /// Rate over the estimated one.
//!         pub gain: f64 = 1.25 => [range: Range::above(0.0), source: "RFC 9002, 7.7"],
//!         /// Time between two packets at least.
//!         pub gap: Span = Span::ZERO => [],
//!     }
//! }
//!
//! let mut config = PacerConfig::default();
//! config.set("gap", &Value::Text("5us".into())).expect("a key").expect("a time");
//! assert_eq!(config.gap, Span::from_us(5));
//! config.set("gain", &Value::Integer(0)).expect("a key").expect("a number");
//! assert_eq!(config.check().unwrap_err().why, "must be above 0");
//! assert_eq!(PacerConfig::describe()[0].range, "above 0");
//! ```

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::time::Span;
use crate::units::{Bytes, Rate};

/// A value as a file holds it.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// True or false.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// Text; quantities have their unit in it.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// A table, which no setting takes.
    Table,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "\"{text}\""),
            Self::List(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if at == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Self::Table => f.write_str("{}"),
        }
    }
}

impl Value {
    /// An error that names this value and what should be in its place.
    fn instead_of(&self, wanted: &str) -> ReadError {
        let hint = match (self, wanted) {
            (Self::Integer(_) | Self::Number(_), TEXT) => "; a quantity has its unit, as in \"5us\"",
            _ => "",
        };
        let found = match self {
            Self::Flag(flag) => format!("boolean `{flag}`"),
            Self::Integer(number) => format!("integer `{number}`"),
            Self::Number(number) => format!("number `{number}`"),
            Self::Text(text) => format!("text \"{text}\""),
            Self::List(_) => "a list".to_owned(),
            Self::Table => "a table".to_owned(),
        };
        ReadError::Wrong(format!("{found} where {wanted} should be{hint}"))
    }
}

/// Why a value was not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadError {
    /// It is of the wrong kind, or cannot be read; what is wrong, in words.
    Wrong(String),
    /// It is none of the names that there are.
    Unknown {
        /// What was given.
        given: String,
        /// The names that there are.
        known: Vec<&'static str>,
    },
}

/// What a setting's value may be. Read from [`Value`] and written as one.
pub trait SettingValue: Sized {
    /// What a [`Range`] is made of: the type itself, or what an `Option` holds; of what has no order, anything.
    type Bound: Copy + PartialOrd + SettingValue;

    /// What it is called in the reference: `time`, `number`, …
    fn kind() -> String;

    /// Reads a value.
    fn read(value: &Value) -> Result<Self, ReadError>;

    /// Writes the value; `None` where none is given.
    fn write(&self) -> Option<Value>;

    /// What ranges look at; `None` where no value is given.
    fn bound(&self) -> Option<&Self::Bound>;
}

const TEXT: &str = "text in quotes";
const QUANTITY: &str = "a quantity with its unit in quotes, such as \"10Gbit/s\", \"5us\" or \"250MB\",";

macro_rules! ordered {
    () => {
        type Bound = Self;

        fn bound(&self) -> Option<&Self> {
            Some(self)
        }
    };
}

macro_rules! unordered {
    () => {
        type Bound = u64;

        fn bound(&self) -> Option<&u64> {
            None
        }
    };
}

impl SettingValue for bool {
    ordered!();

    fn kind() -> String {
        "true or false".to_owned()
    }

    fn read(value: &Value) -> Result<Self, ReadError> {
        if let Value::Flag(flag) = value { Ok(*flag) } else { Err(value.instead_of("true or false")) }
    }

    fn write(&self) -> Option<Value> {
        Some(Value::Flag(*self))
    }
}

impl SettingValue for f64 {
    ordered!();

    fn kind() -> String {
        "number".to_owned()
    }

    fn read(value: &Value) -> Result<Self, ReadError> {
        match value {
            Value::Number(number) => Ok(*number),
            Value::Integer(number) => Ok(*number as f64),
            _ => Err(value.instead_of("a number")),
        }
    }

    fn write(&self) -> Option<Value> {
        Some(Value::Number(*self))
    }
}

impl SettingValue for String {
    unordered!();

    fn kind() -> String {
        "text".to_owned()
    }

    fn read(value: &Value) -> Result<Self, ReadError> {
        if let Value::Text(text) = value { Ok(text.clone()) } else { Err(value.instead_of(TEXT)) }
    }

    fn write(&self) -> Option<Value> {
        Some(Value::Text(self.clone()))
    }
}

macro_rules! whole_numbers {
    ($($type:ty: $wanted:literal),*) => { $(
        impl SettingValue for $type {
            ordered!();

            fn kind() -> String {
                "whole number".to_owned()
            }

            fn read(value: &Value) -> Result<Self, ReadError> {
                let Value::Integer(number) = value else { return Err(value.instead_of($wanted)) };
                Self::try_from(*number).map_err(|_| value.instead_of($wanted))
            }

            fn write(&self) -> Option<Value> {
                Some(Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX)))
            }
        }
    )* };
}

whole_numbers! {
    u8: "a whole number from 0 to 255",
    u16: "a whole number from 0 to 65535",
    u32: "a whole number from 0 on, not too large,",
    u64: "a whole number from 0 on, not too large,"
}

macro_rules! quantities {
    ($($type:ty: $kind:literal),*) => { $(
        impl SettingValue for $type {
            ordered!();

            fn kind() -> String {
                $kind.to_owned()
            }

            fn read(value: &Value) -> Result<Self, ReadError> {
                let Value::Text(text) = value else { return Err(value.instead_of(QUANTITY)) };
                text.parse::<Self>().map_err(|error| ReadError::Wrong(error.to_string()))
            }

            fn write(&self) -> Option<Value> {
                Some(Value::Text(self.to_string()))
            }
        }
    )* };
}

quantities! { Span: "time", Rate: "rate", Bytes: "size" }

impl<T: SettingValue> SettingValue for Option<T> {
    type Bound = T::Bound;

    fn kind() -> String {
        T::kind()
    }

    fn read(value: &Value) -> Result<Self, ReadError> {
        T::read(value).map(Some)
    }

    fn write(&self) -> Option<Value> {
        self.as_ref().and_then(T::write)
    }

    fn bound(&self) -> Option<&T::Bound> {
        self.as_ref().and_then(T::bound)
    }
}

/// A list of whole numbers.
impl SettingValue for Vec<u64> {
    unordered!();

    fn kind() -> String {
        "list of whole numbers".to_owned()
    }

    fn read(value: &Value) -> Result<Self, ReadError> {
        let Value::List(items) = value else { return Err(value.instead_of("a list")) };
        items.iter().map(u64::read).collect()
    }

    fn write(&self) -> Option<Value> {
        Some(Value::List(self.iter().filter_map(u64::write).collect()))
    }
}

/// A list of so many whole numbers.
impl<const N: usize> SettingValue for [u64; N] {
    unordered!();

    fn kind() -> String {
        format!("list of {N} whole numbers")
    }

    fn read(value: &Value) -> Result<Self, ReadError> {
        let wrong = |_| ReadError::Wrong(format!("must be a list of {N} whole numbers"));
        Vec::<u64>::read(value)?.try_into().map_err(wrong)
    }

    fn write(&self) -> Option<Value> {
        self.to_vec().write()
    }
}

/// The values that a setting may have. Its text is that of the reference; a refusal says it as a sentence.
#[derive(Clone, Copy, Debug)]
pub struct Range<T> {
    least: Option<(T, bool)>,
    most: Option<(T, bool)>,
    of: &'static str,
}

impl<T: Copy> Range<T> {
    /// Any value.
    pub const ANY: Self = Self { least: None, most: None, of: "" };

    /// `least` and more.
    pub const fn from(least: T) -> Self {
        Self { least: Some((least, true)), ..Self::ANY }
    }

    /// More than `least`.
    pub const fn above(least: T) -> Self {
        Self { least: Some((least, false)), ..Self::ANY }
    }

    /// `most` and less.
    pub const fn up_to(most: T) -> Self {
        Self { most: Some((most, true)), ..Self::ANY }
    }

    /// From `least` to `most`, both included: \[least, most\].
    pub const fn closed(least: T, most: T) -> Self {
        Self { least: Some((least, true)), most: Some((most, true)), ..Self::ANY }
    }

    /// Between `least` and `most`, neither included: (least, most).
    pub const fn open(least: T, most: T) -> Self {
        Self { least: Some((least, false)), most: Some((most, false)), ..Self::ANY }
    }

    /// Above `least`, up to `most`: (least, most\].
    pub const fn above_to(least: T, most: T) -> Self {
        Self { least: Some((least, false)), most: Some((most, true)), ..Self::ANY }
    }

    /// From `least`, below `most`: \[least, most).
    pub const fn from_below(least: T, most: T) -> Self {
        Self { least: Some((least, true)), most: Some((most, false)), ..Self::ANY }
    }

    /// The same range of so many of something, for messages: `"segments"`.
    pub const fn of(self, of: &'static str) -> Self {
        Self { of, ..self }
    }
}

impl<T: PartialOrd + SettingValue> Range<T> {
    /// Whether it holds `value`.
    pub fn contains(&self, value: &T) -> bool {
        let above = self.least.as_ref().is_none_or(|(least, with)| value > least || *with && value == least);
        above && self.most.as_ref().is_none_or(|(most, with)| value < most || *with && value == most)
    }

    /// As the reference writes it; empty for any value.
    pub fn text(&self) -> String {
        let text = match (&self.least, &self.most) {
            (None, None) => return String::new(),
            (Some((least, true)), None) => format!("from {}", plain(least)),
            (Some((least, false)), None) => format!("above {}", plain(least)),
            (None, Some((most, true))) => format!("up to {}", plain(most)),
            (None, Some((most, false))) => format!("below {}", plain(most)),
            (Some((least, true)), Some((most, true))) if !is_number(least) => {
                format!("{} to {}", plain(least), plain(most))
            }
            (Some((least, with_least)), Some((most, with_most))) => {
                let (begin, end) = (if *with_least { '[' } else { '(' }, if *with_most { ']' } else { ')' });
                format!("{begin}{}, {}{end}", plain(least), plain(most))
            }
        };
        if self.of.is_empty() { text } else { format!("{text} {}", self.of) }
    }

    /// A refusal of what lies outside.
    pub fn refusal(&self) -> String {
        let of = if self.of.is_empty() { String::new() } else { format!(" {}", self.of) };
        match (&self.least, &self.most) {
            (Some((least, true)), None) => format!("must be at least {}{of}", plain(least)),
            (Some((least, false)), None) if is_time(least) => format!("must be longer than {}", plain(least)),
            (Some((least, false)), None) => format!("must be above {}{of}", plain(least)),
            (None, Some((most, true))) => format!("must be at most {}{of}", plain(most)),
            (None, Some((most, false))) => format!("must be below {}{of}", plain(most)),
            (Some((least, true)), Some((most, true))) if !is_number(least) => {
                let (least, most) = (plain(least), plain(most));
                if of.is_empty() && least.parse::<u64>().is_err() {
                    format!("must be between {least} and {most}")
                } else {
                    format!("must be {least} to {most}{of}")
                }
            }
            _ => format!("must lie in {}", self.text()),
        }
    }
}

/// A value without quotes.
fn plain<T: SettingValue>(value: &T) -> String {
    match value.write() {
        Some(Value::Text(text)) => text,
        Some(value) => value.to_string(),
        None => String::new(),
    }
}

fn is_number<T: SettingValue>(value: &T) -> bool {
    matches!(value.write(), Some(Value::Number(_)))
}

fn is_time<T: SettingValue>(value: &T) -> bool {
    matches!(value.write(), Some(Value::Text(text)) if text.ends_with('s') && !text.ends_with("/s"))
}

/// What a declaration says of a setting beside its type and default.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<T> {
    /// What it may be.
    pub range: Range<T>,
    /// Where meaning and default come from.
    pub source: &'static str,
    /// What stands in the reference where the default follows from elsewhere.
    pub default: &'static str,
    /// What limits it beside the range, for the reference.
    pub limits: &'static str,
}

impl<T: Copy> Attributes<T> {
    /// Nothing.
    pub const NONE: Self = Self { range: Range::ANY, source: "", default: "", limits: "" };
}

/// A setting as the reference describes it.
#[derive(Clone, PartialEq, Debug)]
pub struct Description {
    /// The key.
    pub key: &'static str,
    /// What it means.
    pub meaning: String,
    /// What its value is: `time`, `number`, `"one" or "other"`.
    pub kind: String,
    /// The default as a file would say it, or in words; empty where there is none.
    pub default: String,
    /// What it may be; empty for anything.
    pub range: String,
    /// Where it comes from; empty if from nowhere else.
    pub source: &'static str,
}

/// A setting out of its range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutOfRange {
    /// The key.
    pub key: &'static str,
    /// What it must be.
    pub why: String,
}

/// A struct of settings, made by [`settings!`](crate::settings!).
pub trait Settings: Default + Clone + fmt::Debug + Send + Sync + 'static {
    /// All settings, in the order of their declaration.
    fn describe() -> Vec<Description>;

    /// The value of a setting: `None` if there is no such key, `Some(None)` if no value is given.
    fn get(&self, key: &str) -> Option<Option<Value>>;

    /// Gives a setting a value: `None` if there is no such key. Ranges are [checked](Self::check) apart.
    fn set(&mut self, key: &str, value: &Value) -> Option<Result<(), ReadError>>;

    /// The first setting outside its range, if one is.
    fn check(&self) -> Result<(), OutOfRange>;
}

/// Settings of which only the trait is known, such as those of a congestion controller behind its name.
pub trait AnySettings: fmt::Debug + Send + Sync {
    /// As [`Settings::describe`].
    fn describe_all(&self) -> Vec<Description>;
    /// As [`Settings::get`].
    fn get_value(&self, key: &str) -> Option<Option<Value>>;
    /// As [`Settings::set`].
    fn set_value(&mut self, key: &str, value: &Value) -> Option<Result<(), ReadError>>;
    /// As [`Settings::check`].
    fn check_all(&self) -> Result<(), OutOfRange>;
}

impl<T: Settings> AnySettings for T {
    fn describe_all(&self) -> Vec<Description> {
        T::describe()
    }

    fn get_value(&self, key: &str) -> Option<Option<Value>> {
        self.get(key)
    }

    fn set_value(&mut self, key: &str, value: &Value) -> Option<Result<(), ReadError>> {
        self.set(key, value)
    }

    fn check_all(&self) -> Result<(), OutOfRange> {
        self.check()
    }
}

/// Describes one setting; called by [`settings!`](crate::settings!).
#[doc(hidden)]
pub fn description<T: SettingValue>(
    key: &'static str,
    meaning: &str,
    default: &T,
    attributes: &Attributes<T::Bound>,
) -> Description {
    let range = attributes.range.text();
    let separator = if range.is_empty() || attributes.limits.is_empty() { "" } else { ", " };
    let written = default.write().map(|value| value.to_string()).unwrap_or_default();
    Description {
        key,
        meaning: meaning.trim().to_owned(),
        kind: T::kind(),
        default: if attributes.default.is_empty() { written } else { attributes.default.to_owned() },
        range: format!("{range}{separator}{}", attributes.limits),
        source: attributes.source,
    }
}

/// Checks one setting; called by [`settings!`](crate::settings!).
#[doc(hidden)]
pub fn check<T: SettingValue>(key: &'static str, value: &T, range: &Range<T::Bound>) -> Result<(), OutOfRange> {
    match value.bound() {
        Some(bound) if !range.contains(bound) => Err(OutOfRange { key, why: range.refusal() }),
        _ => Ok(()),
    }
}

/// Declares a struct of settings.
///
/// Each field of the struct is a setting: documentation (the meaning), name (the key), type, default, and in brackets
/// its [`Attributes`] that are not empty. Fields after `fixed` are no settings. Fields after `nested` are structs of
/// settings themselves, whose keys stand among the others.
#[macro_export]
macro_rules! settings {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $doc:literal])*
                pub $key:ident: $type:ty = $default:expr => [$($attribute:ident: $value:expr),* $(,)?]
            ),* $(,)?
        }
        $(nested {
            $(
                $(#[$nested_meta:meta])*
                pub $nested:ident: $nested_type:ty
            ),* $(,)?
        })?
        $(fixed {
            $(
                $(#[$fixed_meta:meta])*
                pub $fixed:ident: $fixed_type:ty = $fixed_default:expr
            ),* $(,)?
        })?
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $(
                $(#[doc = $doc])*
                pub $key: $type,
            )*
            $($($(#[$nested_meta])* pub $nested: $nested_type,)*)?
            $($($(#[$fixed_meta])* pub $fixed: $fixed_type,)*)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($key: $default,)*
                    $($($nested: <$nested_type>::default(),)*)?
                    $($($fixed: $fixed_default,)*)?
                }
            }
        }

        impl $crate::settings::Settings for $name {
            fn describe() -> $crate::settings::Descriptions {
                #[allow(unused_variables, reason = "a struct may have nested settings alone")]
                let default = Self::default();
                #[allow(unused_mut, reason = "a struct may have no nested settings")]
                let mut all: $crate::settings::Descriptions = [$(
                    $crate::settings::description::<$type>(
                        stringify!($key),
                        concat!($($doc),*),
                        &default.$key,
                        &$crate::settings::Attributes { $($attribute: $value,)* ..$crate::settings::Attributes::NONE },
                    ),
                )*].into();
                $($(all.extend(<$nested_type as $crate::settings::Settings>::describe());)*)?
                all
            }

            fn get(&self, key: &str) -> Option<Option<$crate::settings::Value>> {
                match key {
                    $(stringify!($key) => return Some($crate::settings::SettingValue::write(&self.$key)),)*
                    _ => {}
                }
                $($(
                    if let Some(value) = $crate::settings::Settings::get(&self.$nested, key) {
                        return Some(value);
                    }
                )*)?
                None
            }

            fn set(
                &mut self,
                key: &str,
                value: &$crate::settings::Value,
            ) -> Option<Result<(), $crate::settings::ReadError>> {
                match key {
                    $(stringify!($key) => {
                        let read = <$type as $crate::settings::SettingValue>::read(value);
                        return Some(read.map(|value| self.$key = value));
                    })*
                    _ => {}
                }
                $($(
                    if let Some(result) = $crate::settings::Settings::set(&mut self.$nested, key, value) {
                        return Some(result);
                    }
                )*)?
                None
            }

            fn check(&self) -> Result<(), $crate::settings::OutOfRange> {
                $(
                    let attributes: $crate::settings::Attributes<<$type as $crate::settings::SettingValue>::Bound> =
                        $crate::settings::Attributes { $($attribute: $value,)* ..$crate::settings::Attributes::NONE };
                    $crate::settings::check::<$type>(stringify!($key), &self.$key, &attributes.range)?;
                )*
                $($($crate::settings::Settings::check(&self.$nested)?;)*)?
                Ok(())
            }
        }
    };
}

/// What [`Settings::describe`] gives.
pub type Descriptions = Vec<Description>;

/// Declares an enum whose members a setting names: documentation, member, name.
#[macro_export]
macro_rules! choices {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $(
                $(#[$member_meta:meta])*
                $member:ident = $text:literal
            ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis enum $name {
            $(
                $(#[$member_meta])*
                $member,
            )*
        }

        impl $name {
            /// All of them.
            $vis const ALL: &'static [Self] = &[$(Self::$member),*];

            /// What users call it.
            $vis const fn name(self) -> &'static str {
                match self {
                    $(Self::$member => $text,)*
                }
            }
        }

        impl $crate::settings::SettingValue for $name {
            type Bound = u64;

            fn kind() -> $crate::settings::Text {
                $crate::settings::choice_kind(&[$($text),*])
            }

            fn read(value: &$crate::settings::Value) -> Result<Self, $crate::settings::ReadError> {
                let at = $crate::settings::choice(value, &[$($text),*])?;
                Ok(Self::ALL[at])
            }

            fn write(&self) -> Option<$crate::settings::Value> {
                Some($crate::settings::Value::Text(self.name().into()))
            }

            fn bound(&self) -> Option<&u64> {
                None
            }
        }
    };
}

/// Text of its own.
pub type Text = String;

/// What the reference says of a choice; called by [`choices!`](crate::choices!).
#[doc(hidden)]
pub fn choice_kind(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`\"{name}\"`")).collect();
    quoted.join(", ")
}

/// Which of the names a value is; called by [`choices!`](crate::choices!).
#[doc(hidden)]
pub fn choice(value: &Value, names: &[&'static str]) -> Result<usize, ReadError> {
    let Value::Text(text) = value else { return Err(value.instead_of(TEXT)) };
    let unknown = || ReadError::Unknown { given: text.clone(), known: names.to_vec() };
    names.iter().position(|name| name == text).ok_or_else(unknown)
}

#[cfg(test)]
mod tests;
