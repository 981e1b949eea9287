//! Disciplines of queues, by name: those built in, and those that a program registers.

use std::sync::{Arc, PoisonError, RwLock};

use pliant_proto::switch::{Discipline, ForeignDiscipline};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// In which order packets leave a queue, and which it drops when it is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DisciplineName {
    /// First in, first out.
    #[default]
    Fifo,
    /// By the priority that packets carry (SIGCOMM 2013).
    PFabric,
    /// First in, first out; a trimmed packet for which it has no room goes back to its sender, once.
    ReturnToSender,
    /// As a discipline of another crate says.
    Foreign(&'static str),
}

/// What programs have registered. It only grows.
static FOREIGN: RwLock<Vec<(&'static str, Arc<dyn ForeignDiscipline>)>> = RwLock::new(Vec::new());

/// Lets scenarios name a queue discipline of another crate, as they name `fifo`. Call it before the first scenario is read.
///
/// # Panics
///
/// If the name is taken.
pub fn register_discipline(discipline: Arc<dyn ForeignDiscipline>) {
    let name: &'static str = Box::leak(discipline.name().to_owned().into_boxed_str());
    assert!(DisciplineName::find(name).is_none(), "there is a queue discipline `{name}` already");
    FOREIGN.write().unwrap_or_else(PoisonError::into_inner).push((name, discipline));
}

impl DisciplineName {
    /// Those built in.
    pub(in super::super) const BUILT_IN: [Self; 3] = [Self::Fifo, Self::PFabric, Self::ReturnToSender];

    /// Its name in scenario files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::PFabric => "pfabric",
            Self::ReturnToSender => "return-to-sender",
            Self::Foreign(name) => name,
        }
    }

    fn all() -> Vec<Self> {
        let foreign = FOREIGN.read().unwrap_or_else(PoisonError::into_inner);
        Self::BUILT_IN.into_iter().chain(foreign.iter().map(|(name, _)| Self::Foreign(name))).collect()
    }

    fn find(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|known| known.name() == name)
    }

    /// What a port does.
    pub(super) fn discipline(self) -> Discipline {
        match self {
            Self::Fifo => Discipline::Fifo,
            Self::PFabric => Discipline::PFabric,
            Self::ReturnToSender => Discipline::ReturnToSender,
            Self::Foreign(name) => {
                let foreign = FOREIGN.read().unwrap_or_else(PoisonError::into_inner);
                let (_, discipline) = foreign.iter().find(|(known, _)| *known == name).expect("it was registered");
                Discipline::Foreign(Arc::clone(discipline))
            }
        }
    }
}

impl Serialize for DisciplineName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for DisciplineName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::find(&name).ok_or_else(|| {
            let known: Vec<String> = Self::all().iter().map(|known| format!("`{}`", known.name())).collect();
            // As serde says it of an enum, so that the nearest name is found alike.
            de::Error::custom(format!("unknown variant `{name}`, expected one of {}", known.join(", ")))
        })
    }
}
