//! Runs the commands of a page that make several hosts of one machine.

#[path = "script.rs"]
mod script;

use std::path::Path;

use script::run_script;

/// Runs the commands below docs/`page` that this `test` is named beside, as [`run_script`] does.
pub(crate) fn run_commands(page: &str, test: &str, tools: &[&str], namespaces: &str) -> Option<String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = std::fs::read_to_string(docs.join(page)).unwrap();
    let mark = format!("<!-- run by crates/cli/tests/{test} -->\n```sh\n");
    let (_, rest) = page.split_once(&mark).expect("the commands are marked");
    let (commands, _) = rest.split_once("```\n").expect("they end");
    run_script(commands, tools, namespaces)
}
