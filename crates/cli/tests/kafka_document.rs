//! docs/kafka.md says what its record says.

use std::path::Path;

/// Every line of the tables is there, in order, and every check held; experiments have what was recorded.
#[test]
fn the_tables_are_the_records() {
    let read = |name: &str| {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap()
    };
    let (page, record) = (read("kafka.md"), read("kafka.json"));
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    for part in ["brokers1", "brokers3", "lossy", "clients", "flink"] {
        let checks = record[part]["checks"].as_object().unwrap();
        let failed: Vec<_> = checks.iter().filter(|(_, held)| **held != true).collect();
        assert!(!checks.is_empty() && failed.is_empty(), "{part}: {failed:?}");
    }
    let figures: serde_json::Value = serde_json::from_str(&read("kafka_figures.json")).unwrap();
    let failed: Vec<_> = figures["checks"].as_object().unwrap().iter().filter(|(_, held)| **held != true).collect();
    assert!(failed.is_empty(), "{failed:?}");
    for (figure, text) in figures["measured"].as_object().unwrap() {
        let file = read(&format!("../experiments/atp/measured/{figure}.toml"));
        assert_eq!(file, text.as_str().unwrap(), "{figure}");
    }
    let tables = [&record["tables"], &figures["page"]].map(|tables| tables.as_object().unwrap());
    for (name, lines) in tables.into_iter().flatten() {
        let (_, rest) = page.split_once(&format!("<!-- {name} of ")).unwrap_or_else(|| panic!("no table {name}"));
        let (table, _) = rest.split_once("<!-- end -->").unwrap();
        let found: Vec<&str> = table.lines().skip(1).filter(|line| !line.starts_with("|---")).collect();
        let recorded: Vec<&str> = lines.as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        assert_eq!(found, recorded, "{name}");
    }
}
