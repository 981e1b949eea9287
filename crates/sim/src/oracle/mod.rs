//! Closed forms and exact allocations that simulations are measured against.
