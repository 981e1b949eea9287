//! The `pliant` command.

fn main() -> std::process::ExitCode {
    pliant_cli::main()
}
