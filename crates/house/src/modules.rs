//! The modules of a crate, and which of its files uses which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::cycles::Graph;
use crate::source::{Source, Token};

/// A name that other files can see, and where it is defined.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Definition {
    /// As it is written.
    pub name: String,
    /// The file that defines it.
    pub file: PathBuf,
    /// The line with its name, from 1 on.
    pub line: usize,
}

/// The production code of a crate.
#[derive(Debug, Default)]
pub struct Modules {
    all: Vec<Module>,
    /// Public types: structs, enums, unions, traits and aliases, `pub(crate)` ones included.
    pub types: Vec<Definition>,
    /// Where a file of the module tree should be and is not.
    pub missing: Vec<PathBuf>,
}

/// The first line in which a file uses another, by both.
pub type Uses = BTreeMap<(PathBuf, PathBuf), usize>;

#[derive(Debug, Default)]
struct Module {
    file: PathBuf,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// Names that this module defines.
    defined: BTreeSet<String>,
    imports: Vec<Import>,
    /// Paths of two segments or more in code, with their lines.
    paths: Vec<(Vec<String>, usize)>,
    /// Names in code that stand where a type, a function or a macro does.
    names: BTreeMap<String, usize>,
}

/// One name that a `use` brings.
#[derive(Clone, Debug)]
struct Import {
    path: Vec<String>,
    /// `None` is everything there is: `*`.
    name: Option<String>,
    is_public: bool,
    line: usize,
}

/// What a path leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    Module(usize),
    /// Something that this module defines, or that is taken for its.
    Item(usize),
    OtherCrate,
}

impl Modules {
    /// Reads the files below `root`, a `lib.rs` or `main.rs`. `read` gives a file's text, if it is there.
    pub fn of(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Self {
        let mut modules = Self::default();
        modules.load(root, root.parent().unwrap_or(Path::new("")), None, read);
        modules
    }

    fn load(
        &mut self,
        file: &Path,
        folder: &Path,
        parent: Option<usize>,
        read: &dyn Fn(&Path) -> Option<String>,
    ) -> usize {
        let module = self.add(file, parent);
        match read(file) {
            Some(text) => self.read_tokens(module, folder, &Source::parse(&text).tokens, read),
            None => self.missing.push(file.to_owned()),
        }
        module
    }

    fn add(&mut self, file: &Path, parent: Option<usize>) -> usize {
        self.all.push(Module { file: file.to_owned(), parent, ..Module::default() });
        self.all.len() - 1
    }

    /// Reads the tokens of a module whose children's files are in `folder`.
    fn read_tokens(
        &mut self,
        module: usize,
        folder: &Path,
        tokens: &[Token<'_>],
        read: &dyn Fn(&Path) -> Option<String>,
    ) {
        let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
        let mut at = 0;
        while at < tokens.len() {
            let line = tokens[at].line;
            match text(at) {
                "mod" if text(at + 2) == ";" => {
                    let name = text(at + 1);
                    let of_file = folder.join(format!("{name}.rs"));
                    let file = if read(&of_file).is_some() { of_file } else { folder.join(name).join("mod.rs") };
                    let child = self.load(&file, &folder.join(name), Some(module), read);
                    self.all[module].children.insert(name.to_owned(), child);
                    at += 3;
                }
                "mod" if text(at + 2) == "{" => {
                    let name = text(at + 1);
                    let length = braces(&tokens[at + 2..]);
                    let file = self.all[module].file.clone();
                    let child = self.add(&file, Some(module));
                    self.all[module].children.insert(name.to_owned(), child);
                    self.read_tokens(child, &folder.join(name), &tokens[at + 3..at + 1 + length], read);
                    at += 2 + length;
                }
                "use" if text(at + 1) != "<" => {
                    let length = tokens[at..].iter().position(|token| token.text == ";").unwrap_or(tokens.len() - at);
                    let is_public =
                        at > 0 && (text(at - 1) == "pub" || text(at - 1) == ")" && is_visibility(tokens, at));
                    let mut names = Vec::new();
                    import_names(&tokens[at + 1..at + length], &[], &mut names);
                    let imports = names.into_iter().map(|(path, name)| Import { path, name, is_public, line });
                    self.all[module].imports.extend(imports);
                    at += length + 1;
                }
                keyword @ ("struct" | "enum" | "union" | "trait" | "type" | "fn" | "const" | "static") => {
                    let name = text(at + 1).to_owned();
                    let is_type = !matches!(keyword, "fn" | "const" | "static");
                    if is_type && is_visible(tokens, at) {
                        let file = self.all[module].file.clone();
                        if name != "$" {
                            self.types.push(Definition { name: name.clone(), file, line: tokens[at + 1].line });
                        }
                    }
                    self.all[module].defined.insert(name);
                    at += 1;
                }
                word if starts_word(word) => {
                    let segments = path_segments(&tokens[at..]);
                    let is_first = at == 0 || !matches!(text(at - 1), "::" | "." | "in" | "\"");
                    if is_first && segments.len() > 1 {
                        let path = segments.iter().map(|&segment| segment.to_owned()).collect();
                        self.all[module].paths.push((path, line));
                    }
                    if is_first && (word.starts_with(char::is_uppercase) || matches!(text(at + 1), "(" | "!" | "::")) {
                        self.all[module].names.entry(word.to_owned()).or_insert(line);
                    }
                    at += 2 * segments.len() - 1;
                }
                _ => at += 1,
            }
        }
    }

    /// The files with production code.
    pub fn files(&self) -> BTreeSet<&Path> {
        self.all.iter().map(|module| module.file.as_path()).collect()
    }

    /// Which file uses which. The line with which a module makes public what its descendants define is not one.
    pub fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for (module, of_module) in self.all.iter().enumerate() {
            let mut note = |target: Option<Target>, line: usize| {
                let to = match target {
                    Some(Target::Module(to) | Target::Item(to)) => &self.all[to].file,
                    Some(Target::OtherCrate) | None => return,
                };
                if *to != of_module.file {
                    let first = uses.entry((of_module.file.clone(), to.clone())).or_insert(line);
                    *first = line.min(*first);
                }
            };
            for import in &of_module.imports {
                let target = self.resolve(module, &import.path, 0);
                let named = import.name.as_ref().and_then(|name| of_module.names.get(name)).copied();
                let is_facade = import.is_public
                    && matches!(target, Some(Target::Module(to) | Target::Item(to)) if self.is_below(to, module));
                let line = if is_facade { named } else { Some(import.line) };
                // A module that code names is not used itself, but what the code takes from it: below.
                let is_module_in_code = matches!(target, Some(Target::Module(_))) && named.is_some();
                if let Some(line) = line.filter(|_| !is_module_in_code) {
                    note(target, line);
                }
            }
            for (path, line) in &of_module.paths {
                note(self.resolve(module, path, 0), *line);
            }
        }
        uses
    }

    fn is_below(&self, mut module: usize, ancestor: usize) -> bool {
        while let Some(parent) = self.all[module].parent {
            if parent == ancestor {
                return true;
            }
            module = parent;
        }
        false
    }

    /// What a path means in a module; `None` if it begins with a name that no module and no import has.
    fn resolve(&self, module: usize, path: &[String], depth: usize) -> Option<Target> {
        // Imports that name each other in a circle.
        if depth > 16 {
            return None;
        }
        let (mut at, mut rest) = (module, path);
        let mut is_anchored = false;
        while let Some((first, others)) = rest.split_first() {
            at = match first.as_str() {
                "crate" => 0,
                "self" => at,
                "super" => self.all[at].parent?,
                _ => break,
            };
            (rest, is_anchored) = (others, true);
        }
        for segment in rest {
            match self.look_up(at, segment, depth + 1) {
                Some(Target::Module(child)) => at = child,
                Some(found) => return Some(found),
                None if is_anchored => return Some(Target::Item(at)),
                None => return None,
            }
            is_anchored = true;
        }
        Some(Target::Module(at))
    }

    fn look_up(&self, module: usize, name: &str, depth: usize) -> Option<Target> {
        let of_module = &self.all[module];
        if let Some(&child) = of_module.children.get(name) {
            return Some(Target::Module(child));
        }
        if let Some(import) = of_module.imports.iter().find(|import| import.name.as_deref() == Some(name)) {
            // A name that an import brings under itself is another crate's.
            let is_own = import.path.first().is_some_and(|first| first == name);
            let found = if is_own { None } else { self.resolve(module, &import.path, depth) };
            return Some(found.unwrap_or(Target::OtherCrate));
        }
        if of_module.defined.contains(name) {
            return Some(Target::Item(module));
        }
        let globs = of_module.imports.iter().filter(|import| import.name.is_none());
        let mut from_globs = globs.filter_map(|glob| match self.resolve(module, &glob.path, depth) {
            Some(Target::Module(all)) if all != module && depth < 16 => self.look_up(all, name, depth + 1),
            _ => None,
        });
        from_globs.next()
    }
}

/// The graph of [`Uses`].
pub fn graph(uses: &Uses) -> Graph<PathBuf> {
    let mut graph = Graph::new();
    for (from, to) in uses.keys() {
        graph.entry(from.clone()).or_insert_with(BTreeSet::new).insert(to.clone());
    }
    graph
}

fn starts_word(text: &str) -> bool {
    text.starts_with(|character: char| character.is_alphabetic() || character == '_')
}

/// How many tokens from the opening brace to its closing one.
fn braces(tokens: &[Token<'_>]) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate() {
        match token.text {
            "{" => depth += 1,
            "}" if depth == 1 => return index + 1,
            "}" => depth -= 1,
            _ => {}
        }
    }
    tokens.len()
}

/// Whether the parentheses that end before `at` are those of `pub(...)`.
fn is_visibility(tokens: &[Token<'_>], at: usize) -> bool {
    let open = tokens[..at].iter().rposition(|token| token.text == "(");
    open.is_some_and(|open| open > 0 && tokens[open - 1].text == "pub")
}

/// Whether the item whose keyword is at `at` is visible outside of its module.
fn is_visible(tokens: &[Token<'_>], at: usize) -> bool {
    let before = tokens[..at].iter().rposition(|token| !matches!(token.text, "unsafe" | "auto"));
    before.is_some_and(|before| {
        tokens[before].text == "pub" || tokens[before].text == ")" && is_visibility(tokens, before)
    })
}

/// The words of a path: `a::b::C`.
fn path_segments<'s>(tokens: &[Token<'s>]) -> Vec<&'s str> {
    let mut segments = vec![tokens[0].text];
    for pair in tokens[1..].chunks_exact(2) {
        if pair[0].text != "::" || !starts_word(pair[1].text) {
            break;
        }
        segments.push(pair[1].text);
    }
    segments
}

/// The names that a `use` brings, each with its path. `tokens` are those between `use` and its semicolon.
fn import_names(tokens: &[Token<'_>], before: &[String], names: &mut Vec<(Vec<String>, Option<String>)>) {
    let mut path = before.to_vec();
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].text {
            "::" => {}
            "*" => return names.push((path, None)),
            "as" => {
                let name = tokens.get(at + 1).map(|token| token.text.to_owned());
                return names.push((path, name));
            }
            "{" => {
                for part in comma_separated(&tokens[at + 1..at + braces(&tokens[at..]) - 1]) {
                    import_names(part, &path, names);
                }
                return;
            }
            word => path.push(word.to_owned()),
        }
        at += 1;
    }
    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
        path.pop();
    }
    let name = path.last().cloned();
    names.push((path, name));
}

fn comma_separated<'t, 's>(tokens: &'t [Token<'s>]) -> Vec<&'t [Token<'s>]> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0);
    for (index, token) in tokens.iter().enumerate() {
        match token.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 0 => {
                parts.push(&tokens[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    if start < tokens.len() {
        parts.push(&tokens[start..]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which file uses which, and in which line, in a crate of these files.
    fn uses(files: &[(&str, &str)]) -> Vec<String> {
        let read =
            |path: &Path| files.iter().find(|(file, _)| Path::new(file) == path).map(|&(_, text)| text.to_owned());
        let modules = Modules::of(Path::new("lib.rs"), &read);
        assert!(modules.missing.is_empty(), "{:?}", modules.missing);
        let uses = modules.uses();
        uses.iter().map(|((from, to), line)| format!("{}:{line} {}", from.display(), to.display())).collect()
    }

    #[test]
    fn imports_lead_to_files() {
        let found = uses(&[
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod c;\nuse crate::b::{self as other, B};"),
            ("a/c.rs", "use super::super::b;\nfn f() { b::g() }"),
            ("b.rs", "pub struct B; pub fn g() {}"),
        ]);
        assert_eq!(found, ["a/c.rs:2 b.rs", "a/mod.rs:2 b.rs"]);
    }

    /// Who takes a name from a façade uses the file that defines it; the façade itself uses nobody.
    #[test]
    fn a_facade_is_looked_through() {
        let found = uses(&[
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod c;\npub use c::C;\npub struct A;"),
            ("a/c.rs", "use super::A; pub struct C;"),
            ("b.rs", "use crate::a::C;"),
        ]);
        assert_eq!(found, ["a/c.rs:1 a/mod.rs", "b.rs:1 a/c.rs"]);
    }

    #[test]
    fn a_facade_that_uses_what_it_shows_is_none() {
        let found = uses(&[("lib.rs", "mod a;\npub use a::A;\nfn f(_: A) {}"), ("a.rs", "pub struct A;")]);
        assert_eq!(found, ["lib.rs:3 a.rs"]);
    }

    #[test]
    fn paths_in_code_count_tests_and_other_crates_do_not() {
        let found = uses(&[
            ("lib.rs", "mod a; mod b; mod d;"),
            (
                "a.rs",
                "use std::fmt;\nfn f() -> crate::b::B { fmt::x(); other::b::B }\n#[cfg(test)]\nmod tests { use crate::d; }",
            ),
            ("b.rs", "pub struct B; mod inner { use super::super::d::D; }"),
            ("d.rs", "pub enum D { E }"),
        ]);
        assert_eq!(found, ["a.rs:2 b.rs", "b.rs:1 d.rs"]);
    }

    #[test]
    fn globs_are_looked_through() {
        let found = uses(&[
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod c; pub use c::*;"),
            ("a/c.rs", "pub struct C;"),
            ("b.rs", "use crate::a::C;"),
        ]);
        assert_eq!(found, ["b.rs:1 a/c.rs"]);
    }

    #[test]
    fn public_types_are_listed() {
        let read = |_: &Path| {
            Some("pub struct A;\npub(crate) enum B {}\nstruct C; pub fn d() {} trait E { type F; }".to_owned())
        };
        let names: Vec<_> = Modules::of(Path::new("lib.rs"), &read).types.into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["A", "B"]);
    }
}
