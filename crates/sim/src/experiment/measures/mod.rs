//! What expressions can measure.
//!
//! A measure of one column is named where the column is declared (`results`). Every other measure is an entry of
//! [`COMBINED`]: its name, and how the engine gets it. Measures of flows, queues and groups look at runs through
//! [`flows::Flows`], [`queues::Queues`] and [`run_ref::RunRef`], which know the run, the seeds and whether this is a check.
//! `docs/experiments.md` has a line for each measure; a test compares.

mod flows;
mod fluid;
mod lists;
mod objects;
mod queues;
mod reflex;
mod run_ref;
mod sampled;
mod throughput;
mod values;
mod windows;

use rhai::Engine;

pub(super) use run_ref::register_run;
pub(super) use values::number;

/// A function of expressions.
struct Measure {
    name: &'static str,
    register: fn(&mut Engine),
}

/// The names of all measures.
pub(super) fn names() -> Vec<String> {
    let combined = COMBINED.iter().map(|measure| measure.name.to_owned());
    let columns = [flows::column_names(), objects::column_names(), throughput::column_names(), queues::column_names()];
    combined.chain(columns.into_iter().flatten()).collect()
}

/// Makes all measures known to the engine.
pub(super) fn register(engine: &mut Engine) {
    for measure in COMBINED {
        (measure.register)(engine);
    }
    flows::register_columns(engine);
    objects::register_columns(engine);
    throughput::register_columns(engine);
    queues::register_columns(engine);
}

/// The measures that are more than one column.
const COMBINED: &[Measure] = &[
    // Flows: which, and what of them.
    Measure { name: "flows", register: flows::register_choice },
    Measure {
        name: "size_at_least",
        register: |engine| flows::register_size(engine, "size_at_least", |size, limit| size >= limit),
    },
    Measure {
        name: "size_above",
        register: |engine| flows::register_size(engine, "size_above", |size, limit| size > limit),
    },
    Measure {
        name: "size_at_most",
        register: |engine| flows::register_size(engine, "size_at_most", |size, limit| size <= limit),
    },
    Measure {
        name: "size_below",
        register: |engine| flows::register_size(engine, "size_below", |size, limit| size < limit),
    },
    Measure { name: "started", register: flows::register_started },
    Measure { name: "completed", register: flows::register_completed },
    Measure { name: "count", register: flows::register_count },
    Measure { name: "unfinished", register: flows::register_unfinished },
    Measure { name: "fct_s", register: |engine| flows::register_times(engine, "fct_s", 1e-6) },
    Measure { name: "fct_ms", register: |engine| flows::register_times(engine, "fct_ms", 1e-3) },
    Measure { name: "fct_us", register: |engine| flows::register_times(engine, "fct_us", 1.0) },
    Measure { name: "slowdown", register: flows::register_slowdown },
    Measure { name: "rate_gbit_per_s", register: flows::register_rate },
    Measure { name: "delivered_fraction", register: flows::register_delivered_fraction },
    Measure { name: "retransmission_rate", register: flows::register_retransmission_rate },
    Measure { name: "speed_ups", register: flows::register_speed_ups },
    Measure { name: "given_up_fraction", register: flows::register_given_up_fraction },
    Measure { name: "low_time_fraction", register: flows::register_low_time_fraction },
    Measure { name: "paused_fraction", register: flows::register_paused_fraction },
    // Objects of many sources.
    Measure { name: "objects", register: objects::register_choice },
    Measure { name: "completion_ms", register: objects::register_completion },
    Measure { name: "excess_fraction", register: objects::register_excess },
    Measure { name: "decoded_fraction", register: objects::register_decoded },
    Measure { name: "object_timeouts", register: objects::register_timeouts },
    Measure { name: "parts", register: objects::register_parts },
    // REFLEX.
    Measure { name: "reflex_values", register: |engine| reflex::STANDINGS.register_values(engine, "reflex_values") },
    Measure { name: "reflex_series", register: |engine| reflex::STANDINGS.register_series(engine, "reflex_series") },
    // Windows of senders.
    Measure { name: "window_values", register: |engine| windows::WINDOWS.register_values(engine, "window_values") },
    Measure { name: "window_series", register: |engine| windows::WINDOWS.register_series(engine, "window_series") },
    // The fluid model.
    Measure { name: "fluid", register: fluid::register_model },
    Measure { name: "fluid_mean", register: fluid::register_mean },
    Measure { name: "fluid_series", register: fluid::register_series },
    // Queues of ports.
    Measure { name: "queues", register: queues::register_choice },
    Measure { name: "occupancy_series", register: queues::register_series },
    Measure { name: "dropped_packets", register: queues::register_drops },
    // Lists of numbers.
    Measure { name: "statistic", register: lists::register_statistic },
    Measure { name: "sum", register: lists::register_sum },
    Measure { name: "share_below", register: lists::register_share_below },
    Measure { name: "jain", register: lists::register_jain },
];

#[cfg(test)]
mod tests;
