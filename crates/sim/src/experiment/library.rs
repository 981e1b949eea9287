//! The experiment files there are: those of a folder, and those that are part of the program.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::scenario::ScenarioError;
use crate::scenario::file::document::Document;
use crate::suggest;
use crate::text_file;
use crate::workload::missing_data;

/// A folder beside those of papers, whose files are scenarios for a testbed.
const SCENARIOS: &str = "testbed";

/// Experiment files by path, `PAPER/FIGURE.toml`.
#[derive(Clone, Debug, Default)]
pub struct Library {
    files: BTreeMap<String, File>,
}

#[derive(Clone, Debug)]
struct File {
    /// What errors call it.
    shown: PathBuf,
    text: String,
}

impl Library {
    /// The files that are part of a program: path below `experiments`, and text.
    pub fn embedded(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| {
            (path.to_owned(), File { shown: Path::new("experiments").join(path), text: text.to_owned() })
        };
        Self { files: files.iter().map(file).collect() }
    }

    /// The same with the papers that `folder` has in place of those here. A folder that does not exist has none.
    pub fn with_folder(mut self, folder: &Path) -> io::Result<Self> {
        let mut found = BTreeMap::new();
        if folder.is_dir() {
            collect(folder, "", &mut found)?;
        }
        let papers: BTreeSet<&str> = found.keys().filter_map(|path| Some(path.split_once('/')?.0)).collect();
        self.files.retain(|path, _| path.split_once('/').is_none_or(|(paper, _)| !papers.contains(paper)));
        self.files.extend(found);
        Ok(self)
    }

    /// Papers and their figures, in the order of their names.
    pub fn figures(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut papers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for path in self.files.keys() {
            let parts = path.strip_suffix(".toml").and_then(|path| path.split_once('/'));
            let is_figure = |(folder, figure): &(&str, &str)| *folder != SCENARIOS && !figure.contains('/');
            if let Some((paper, figure)) = parts.filter(is_figure) {
                papers.entry(paper).or_default().push(figure);
            }
        }
        papers
    }

    /// The figures of a paper, or one of them, or all: pairs of paper and figure. The error names the nearest.
    pub fn choose(&self, paper: Option<&str>, figure: Option<&str>) -> Result<Vec<(String, String)>, String> {
        let papers = self.figures();
        let owned = |paper: &str, figure: &str| (paper.to_owned(), figure.to_owned());
        let Some(paper) = paper else {
            let of_paper = |(paper, figures): (&&str, &Vec<&str>)| {
                figures.iter().map(|figure| owned(paper, figure)).collect::<Vec<_>>()
            };
            return Ok(papers.iter().flat_map(of_paper).collect());
        };
        let Some(figures) = papers.get(paper) else {
            return Err(format!("no experiments of a paper `{paper}`{}", suggest::hint(paper, papers.keys().copied())));
        };
        match figure {
            None => Ok(figures.iter().map(|figure| owned(paper, figure)).collect()),
            Some(figure) if figures.contains(&figure) => Ok(vec![owned(paper, figure)]),
            Some(figure) => {
                Err(format!("no experiment `{figure}` of `{paper}`{}", suggest::hint(figure, figures.iter().copied())))
            }
        }
    }

    /// What a figure shows.
    pub fn title(&self, paper: &str, figure: &str) -> Result<String, ScenarioError> {
        let (shown, text) = self.read(&format!("{paper}/{figure}.toml")).expect("chosen from the library");
        let document = Document::parse(text, shown)?;
        let title = document.root().get("title").and_then(|title| title.as_str()).map(str::to_owned);
        title.ok_or_else(|| document.error("title", "is missing"))
    }

    /// Which data files a figure needs and does not find, in a line; `None` if it has all. Without them its runs cannot
    /// be planned.
    pub fn missing_data(&self, paper: &str, figure: &str) -> Result<Option<String>, ScenarioError> {
        let (shown, text) = self.read(&format!("{paper}/{figure}.toml")).expect("chosen from the library");
        let document = Document::parse(text, shown)?;
        let names = match document.root().get("data").map(|data| data.clone().try_into::<Vec<String>>()) {
            None => return Ok(None),
            Some(Ok(names)) => names,
            Some(Err(_)) => return Err(document.error("data", "must be a list of file names")),
        };
        Ok(missing_data(&names).map(|why| format!("{paper} {figure}: {why}")))
    }

    /// What errors call the file at `path`, and its text.
    pub(super) fn read(&self, path: &str) -> Option<(&Path, &str)> {
        self.files.get(path).map(|file| (file.shown.as_path(), file.text.as_str()))
    }

    /// The path that `relative` means in the file at `path`.
    pub(super) fn resolve(path: &str, relative: &str) -> String {
        let folder = Path::new(path).parent().unwrap_or(Path::new(""));
        let mut parts: Vec<String> = Vec::new();
        for part in folder.join(relative).components() {
            match part {
                Component::ParentDir => drop(parts.pop()),
                Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
                _ => {}
            }
        }
        parts.join("/")
    }

    /// Every path, for suggestions.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }
}

fn collect(folder: &Path, below: &str, found: &mut BTreeMap<String, File>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (shown, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if entry.file_type()?.is_dir() {
            collect(&shown, &format!("{below}{name}/"), found)?;
        } else if !below.is_empty() && shown.extension().is_some_and(|end| end == "toml") {
            let text = text_file::read(&shown)?;
            found.insert(format!("{below}{name}"), File { shown, text });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library() -> Library {
        Library::embedded(&[
            ("a/fig02.toml", ""),
            ("a/fig01.toml", ""),
            ("a/scenarios/one.toml", ""),
            ("b/fig9.toml", ""),
        ])
    }

    /// Figures are the files directly below a paper; scenarios lie deeper.
    #[test]
    fn figures_are_chosen_by_name() {
        let pair = |paper: &str, figure: &str| (paper.to_owned(), figure.to_owned());
        let library = library();
        assert_eq!(library.choose(Some("a"), None).unwrap(), [pair("a", "fig01"), pair("a", "fig02")]);
        assert_eq!(library.choose(None, None).unwrap().len(), 3);
        assert_eq!(library.choose(Some("b"), Some("fig9")).unwrap(), [pair("b", "fig9")]);
        let unknown = library.choose(Some("a"), Some("fig03")).unwrap_err();
        assert!(unknown.contains("did you mean `fig0"), "{unknown}");
        assert!(library.choose(Some("zzz"), None).unwrap_err().contains("there are: a, b"));
    }

    #[test]
    fn a_folder_takes_the_place_of_its_papers() {
        let folder = std::env::temp_dir().join(format!("pliant-library-{}", std::process::id()));
        fs::create_dir_all(folder.join("a/scenarios")).unwrap();
        fs::write(folder.join("a/fig07.toml"), "x").unwrap();
        fs::write(folder.join("loose.toml"), "x").unwrap();
        let library = library().with_folder(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(library.figures(), [("a", vec!["fig07"]), ("b", vec!["fig9"])].into_iter().collect());
        assert!(library.clone().with_folder(Path::new("missing")).unwrap().figures().len() == 2);
    }

    #[test]
    fn paths_are_relative_to_the_file() {
        assert_eq!(Library::resolve("a/fig01.toml", "scenarios/one.toml"), "a/scenarios/one.toml");
        assert_eq!(Library::resolve("a/fig01.toml", "../b/./fig9.toml"), "b/fig9.toml");
    }
}
