//! Closed forms and exact allocations that simulations are measured against.

pub mod fair_rates;
pub mod fairness;
pub mod fluid;
pub mod ideal_fct;
pub mod max_min;
pub mod shares;
