//! The commands of docs/daemon.md that make two hosts of one machine do what they say.

#[path = "common/commands_of_page.rs"]
mod commands_of_page;

use std::path::Path;

use commands_of_page::run_commands;

#[test]
fn five_minutes_from_nothing_to_rclone() {
    let tools = ["ip", "curl", "rclone", "python3"];
    let said = run_commands("daemon.md", "daemon_document.rs", &tools, "pliant-here pliant-there");
    let holds = |said: &String| said.contains("backup       ledbat++") && said.contains("100.0 Mbit/s");
    assert!(said.as_ref().is_none_or(holds), "{said:?}");
}

/// The tables of the proof are those of its record.
#[test]
fn the_tables_of_the_proof_are_the_records() {
    let read = |name: &str| {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap()
    };
    let (page, record) = (read("daemon.md"), read("proof.json"));
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let links = record["links"].as_array().unwrap();
    assert!(!links.is_empty());
    let mut rest = page.as_str();
    for link in links {
        let title = format!("A link of {} Mbit/s, ", link["mbit_per_second"].as_f64().unwrap());
        (_, rest) = rest.split_once(&title).unwrap_or_else(|| panic!("{title} is missing"));
        for row in link["rows"].as_array().unwrap() {
            let cells: Vec<&str> = row["cells"].as_array().unwrap().iter().map(|cell| cell.as_str().unwrap()).collect();
            let line = format!("\n| {} |", cells.join(" | "));
            (_, rest) = rest.split_once(&line).unwrap_or_else(|| panic!("{line} is missing"));
        }
    }
}
