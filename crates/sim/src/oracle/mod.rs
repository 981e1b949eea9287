//! Closed forms and exact allocations that simulations are measured against.

pub mod fairness;
pub mod fluid;
pub mod ideal_fct;
pub mod max_min;
