//! The commands of docs/objects.md that make three hosts of one machine do what they say.

#[path = "common/commands_of_page.rs"]
mod commands_of_page;

use commands_of_page::run_commands;

#[test]
fn five_minutes_from_nothing_to_curl_from_two_sources() {
    let namespaces = "pliant-host1 pliant-host2 pliant-host3 pliant-bridge";
    let said = run_commands("objects.md", "objects_document.rs", &["ip", "curl"], namespaces);
    let holds =
        |said: &String| said.to_lowercase().contains("content-length: 20000000") && said.contains("10.214.0.3:7413");
    assert!(said.as_ref().is_none_or(holds), "{said:?}");
}
