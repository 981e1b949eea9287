//! `pliant` with one congestion controller more: Swift.
mod swift;

use pliant_sim::families::{ForeignController, register_controller};

fn main() -> std::process::ExitCode {
    let description = "Swift: holds the delay of the fabric, and of hosts, at targets (SIGCOMM 2020)";
    let settings =
        &|| -> Box<dyn pliant_proto::congestion::ControllerSettings> { Box::new(swift::SwiftConfig::default()) };
    register_controller(ForeignController { name: "swift", description, honours: &[], settings });
    pliant_cli::main()
}
