//! `pliant._pliant`: what the Python package needs of Pliant's crates. Bindings only: experiments, tables and plots are
//! Python, in `python/pliant`.

use pyo3::prelude::*;

mod compare;
mod controller;
mod errors;
mod identity;
mod reproduce;
mod result;
mod scenario;
mod supervise;
mod sweep;
mod table;
mod transfer;
mod values;

/// Bindings of Pliant. Use the package `pliant`.
#[pymodule]
fn _pliant(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<scenario::Scenario>()?;
    module.add_class::<result::RunResult>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<controller::Ack>()?;
    module.add_class::<controller::CongestionEvent>()?;
    module.add_class::<sweep::SweepPlan>()?;
    module.add_class::<transfer::Pending>()?;
    module.add_class::<transfer::NetNode>()?;
    module.add_class::<transfer::NetStream>()?;
    module.add_class::<transfer::NetSender>()?;
    module.add_class::<transfer::NetReceiver>()?;
    module.add_function(wrap_pyfunction!(result::run, module)?)?;
    module.add_function(wrap_pyfunction!(controller::add_controller, module)?)?;
    module.add_function(wrap_pyfunction!(compare::compare, module)?)?;
    module.add_function(wrap_pyfunction!(reproduce::reproduce, module)?)?;
    module.add_function(wrap_pyfunction!(reproduce::figures, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::place, module)?)?;
    module.add_function(wrap_pyfunction!(identity::identity, module)?)
}
