//! The transports that scenarios can name: those built in, and those that a program registers.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

use pliant_proto::settings::AnySettings;
use serde::{Deserialize, Deserializer, de};
use toml::Table;

use super::family::{Family, TransportName};
use super::tcp::{ForeignController, Window};
use super::{atp, credits, dccp, homa, kernel, ndp, near_opt, push, scdp, tcp, two_class, udp};
use crate::tables::{self, KeyError};

/// The families that are built in.
const REGISTRY: &[&dyn Family] = &[
    &tcp::TcpFamily,
    &udp::UdpFamily,
    &dccp::DccpFamily,
    &ndp::NdpFamily,
    &scdp::ScdpFamily,
    &homa::HomaFamily,
    &atp::AtpFamily,
    &near_opt::NearOptFamily,
    &credits::CreditFamily,
    &push::PushFamily,
    &two_class::TwoClassFamily,
    &kernel::KernelFamily,
];

/// What programs have registered. It only grows, and what is in it lives as long as the program.
static FOREIGN: RwLock<Vec<TransportName>> = RwLock::new(Vec::new());

/// Lets scenarios name the members of `family`. Call it before the first scenario is read.
///
/// # Panics
///
/// If a name is taken.
pub fn register(family: &'static dyn Family) {
    for member in family.members() {
        assert!(TransportName::find(member.name).is_none(), "there is a transport `{}` already", member.name);
        FOREIGN.write().unwrap_or_else(PoisonError::into_inner).push(TransportName::of(member, family));
    }
}

/// Lets scenarios name a congestion controller of another crate, as they name `dctcp`: it is a member of the TCP family.
/// Call it before the first scenario is read.
///
/// # Panics
///
/// If the name is taken.
pub fn register_controller(controller: ForeignController) {
    register(tcp::foreign(controller));
}

/// The names of all tables of settings that a group may have, each once.
pub fn tables() -> BTreeSet<&'static str> {
    // They are asked for with every group that is read, and describing all settings to find them takes milliseconds.
    static NAMES: RwLock<(usize, BTreeSet<&'static str>)> = RwLock::new((0, BTreeSet::new()));
    let transports = TransportName::all();
    {
        let known = NAMES.read().unwrap_or_else(PoisonError::into_inner);
        if known.0 == transports.len() {
            return known.1.clone();
        }
    }
    let names: BTreeSet<&str> = transports.iter().flat_map(|name| name.tables()).map(|table| table.name).collect();
    *NAMES.write().unwrap_or_else(PoisonError::into_inner) = (transports.len(), names.clone());
    names
}

impl TransportName {
    /// Every transport, those built in first.
    pub fn all() -> Vec<Self> {
        let foreign = FOREIGN.read().unwrap_or_else(PoisonError::into_inner);
        Self::all_built_in().chain(foreign.iter().copied()).collect()
    }

    /// Every transport that is built in.
    pub fn all_built_in() -> impl Iterator<Item = Self> {
        let of_family = |family: &&'static dyn Family| {
            let family = *family;
            family.members().iter().map(move |member| Self::of(member, family))
        };
        REGISTRY.iter().flat_map(of_family)
    }

    /// The transport of this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|transport| transport.name() == name)
    }
}

impl Default for TransportName {
    fn default() -> Self {
        Self::find("dctcp").expect("it is built in")
    }
}

impl<'de> Deserialize<'de> for TransportName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::find(&name).ok_or_else(|| {
            let known: Vec<String> = Self::all().iter().map(|known| format!("`{}`", known.name())).collect();
            // As serde says it of an enum, so that the nearest name is found alike.
            de::Error::custom(format!("unknown variant `{name}`, expected one of {}", known.join(", ")))
        })
    }
}

/// Refuses a setting for all groups that no transport has, or whose value none can take.
pub(crate) fn check_shared_tcp(table: &Table) -> Result<(), KeyError> {
    let window = |name: TransportName| Some(Window::of(name, name.family().controller(name)?));
    let mut windows: Vec<Window> = TransportName::all().into_iter().filter_map(window).collect();
    for (key, value) in table {
        let results: Vec<_> =
            windows.iter_mut().filter_map(|window| window.set_value(key, &tables::from_toml(value))).collect();
        if results.is_empty() {
            let mut known: Vec<String> = windows.iter().flat_map(|window| tables::keys(window)).collect();
            known.sort_unstable();
            known.dedup();
            return Err((key.clone(), tables::unknown_key(key, &known)));
        }
        if results.iter().all(Result::is_err)
            && let Some(Err(why)) = results.into_iter().next()
        {
            return Err((key.clone(), tables::in_words(why)));
        }
    }
    Ok(())
}
