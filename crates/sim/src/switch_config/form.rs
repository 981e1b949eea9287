//! The forms, and what is written in them.

/// In whose words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// SONiC's `config_db.json`.
    Sonic,
    /// Commands of `tc` that make strict and weighted bands (`ets`) with marking (`red`).
    Tc,
    /// Commands of `tc` that need `htb`, `bfifo` and the `u32` filter only, which every kernel has.
    Htb,
    /// A neutral description.
    Json,
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exported {
    /// The file or script.
    pub text: String,
    /// What the form cannot say, and what was written in its place: a sentence each.
    pub not_expressed: Vec<String>,
}
