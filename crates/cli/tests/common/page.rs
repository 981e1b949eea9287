//! The commands that pages show.

#[path = "shell.rs"]
pub(crate) mod shell;

/// The `pliant` commands in the code blocks of a page, each one line, without comments.
pub(crate) fn commands(page: &str) -> Vec<String> {
    let text = page.split("```").skip(1).step_by(2).map(shell::joined).collect::<Vec<_>>().concat();
    let commands = text.lines().map(|line| line.split(" #").next().unwrap().trim());
    commands.filter(|line| line.starts_with("pliant ")).map(str::to_owned).collect()
}
