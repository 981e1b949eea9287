//! The files of a run. `docs/output.md` is their schema.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::experiment::{FigureOutcome, Size};
use crate::report;
use crate::results::RunResult;
use crate::results::comparison::Variant;
use columns::{CHUNK_ROWS, Columns, Field};
use serde::Deserialize;

mod columns;
pub mod files;
mod folder;
mod schema;
mod summary;

pub use folder::check_folder;
pub use summary::summary_json;

/// Why output could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Something is there already.
    #[error("{} exists; choose another folder or replace it with --force", .0.display())]
    Exists(PathBuf),
    /// Something else is there, which must not be replaced.
    #[error("{} is not an output folder of pliant and will not be replaced", .0.display())]
    NotAnOutput(PathBuf),
    /// A file is there.
    #[error("{} is not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// The path names no folder: `/`, `..`.
    #[error("{} does not name a new folder", .0.display())]
    NotAName(PathBuf),
    /// The system refused.
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io {
        /// What was tried: "write", "read".
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is not what pliant writes.
    #[error("cannot read {}: {why}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl OutputError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { doing, path, source }
    }

    /// The same of the folder `asked` where it is of something in the folder `place`, which nobody asked for.
    fn about(self, place: &Path, asked: &Path) -> Self {
        match self {
            Self::Io { doing, path, source } if path.starts_with(place) => Self::io(doing, asked)(source),
            other => other,
        }
    }

    fn malformed(path: &Path) -> impl FnOnce(String) -> Self {
        let path = path.to_path_buf();
        move |why| Self::Malformed { path, why }
    }
}

/// Writes the output folder of a run, whole or not at all. Missing parent folders are created; an existing folder is
/// refused, or replaced with `force` if it is an output folder.
pub fn write_run(dir: &Path, result: &RunResult, resolved_scenario_toml: &str, force: bool) -> Result<(), OutputError> {
    folder::write_whole(dir, force, |folder| write_run_files(folder, result, resolved_scenario_toml))
}

/// Writes the output folder of a comparison, whole or not at all: `comparison.json`, `report.html`, and every
/// variant's own output folder, named after its label. `scenarios` are the variants' resolved scenarios.
pub fn write_comparison(
    dir: &Path,
    title: &str,
    variants: &[Variant<'_>],
    scenarios: &[String],
    force: bool,
) -> Result<(), OutputError> {
    assert_eq!(variants.len(), scenarios.len(), "a scenario for every variant");
    let names = folder_names(variants);
    folder::write_whole(dir, force, |folder| {
        for ((name, variant), scenario) in names.iter().zip(variants).zip(scenarios) {
            let own = folder.join(name);
            fs::create_dir(&own).map_err(OutputError::io("create", &own))?;
            write_run_files(&own, variant.result, scenario)?;
        }
        write_text(&folder.join(files::COMPARISON), &report::comparison_json_in(title, variants, &names))?;
        let first = scenarios.first().map_or("", String::as_str);
        write_text(&folder.join(files::REPORT), &report::render_comparison(title, variants, first))
    })
}

/// Writes the output folder of a reproduction, whole or not at all: `report.html`, and `verdicts.json` with `verdicts`.
pub fn write_reproduction(
    dir: &Path,
    figures: &[FigureOutcome],
    size: Size,
    verdicts: &str,
    force: bool,
) -> Result<(), OutputError> {
    folder::write_whole(dir, force, |folder| {
        write_text(&folder.join(files::VERDICTS), verdicts)?;
        write_text(&folder.join(files::REPORT), &report::render_reproduction(figures, size))
    })
}

/// Folder names made of the variants' labels: harmless characters, and distinct.
fn folder_names(variants: &[Variant<'_>]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (index, variant) in variants.iter().enumerate() {
        let harmless = |c: char| if c.is_ascii_alphanumeric() || "-_=.".contains(c) { c } else { '_' };
        let mut name: String = variant.label.chars().map(harmless).take(100).collect();
        if name.is_empty() || name.starts_with('.') || names.contains(&name) || is_file_name(&name) {
            name = format!("{index}_{name}");
        }
        names.push(name);
    }
    names
}

fn is_file_name(name: &str) -> bool {
    [files::COMPARISON, files::REPORT].contains(&name)
}

/// Writes what [`read_run`] reads into a folder, whole or not at all, replacing what stands there: a run's output folder
/// without what is only for people.
pub(crate) fn write_data(dir: &Path, result: &RunResult, resolved_scenario_toml: &str) -> Result<(), OutputError> {
    folder::write_whole(dir, true, |folder| write_data_files(folder, result, resolved_scenario_toml))
}

fn write_run_files(folder: &Path, result: &RunResult, resolved_scenario_toml: &str) -> Result<(), OutputError> {
    write_data_files(folder, result, resolved_scenario_toml)?;
    let flows = result.flows.chunks(CHUNK_ROWS).map(|rows| schema::flows(rows, &result.groups));
    write_csv(&folder.join(files::FLOWS_CSV), &schema::FLOWS, flows)?;
    let objects = result.objects();
    if !objects.is_empty() {
        let objects = objects.chunks(CHUNK_ROWS).map(|rows| schema::objects(rows, &result.groups));
        write_csv(&folder.join(files::OBJECTS), &schema::OBJECTS, objects)?;
    }
    write_text(&folder.join(files::REPORT), &report::render(result, resolved_scenario_toml))
}

fn write_data_files(folder: &Path, result: &RunResult, resolved_scenario_toml: &str) -> Result<(), OutputError> {
    let groups = &result.groups;
    let flows = result.flows.chunks(CHUNK_ROWS).map(|rows| schema::flows(rows, groups));
    let ports = result.ports.chunks(CHUNK_ROWS).map(schema::ports);
    write_text(&folder.join(files::SCENARIO), resolved_scenario_toml)?;
    write_text(&folder.join(files::SUMMARY), &summary_json(result))?;
    write_parquet(&folder.join(files::FLOWS_PARQUET), &schema::FLOWS, flows)?;
    write_csv(&folder.join(files::PORTS_CSV), &schema::PORTS, ports)?;
    if !result.queue_samples.is_empty() {
        let chunks = result.queue_samples.chunks(CHUNK_ROWS).map(schema::queue_series);
        write_parquet(&folder.join(files::QUEUE_SERIES), &schema::QUEUE_SERIES, chunks)?;
    }
    if !result.throughput_samples.is_empty() {
        let samples = result.throughput_samples.chunks(CHUNK_ROWS);
        let chunks = samples.map(|rows| schema::throughput_series(rows, groups));
        write_parquet(&folder.join(files::THROUGHPUT_SERIES), &schema::THROUGHPUT_SERIES, chunks)?;
    }
    if !result.window_samples.is_empty() {
        let chunks = result.window_samples.chunks(CHUNK_ROWS).map(|rows| schema::window_series(rows, groups));
        write_parquet(&folder.join(files::WINDOW_SERIES), &schema::WINDOW_SERIES, chunks)?;
    }
    if !result.reflex_samples.is_empty() {
        let chunks = result.reflex_samples.chunks(CHUNK_ROWS).map(|rows| schema::reflex_series(rows, groups));
        write_parquet(&folder.join(files::REFLEX_SERIES), &schema::REFLEX_SERIES, chunks)?;
    }
    Ok(())
}

/// Creates the file at `path`, lets `fill` write it and makes it durable.
fn write_file(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<(), OutputError> {
    let write = || {
        let mut out = BufWriter::new(File::create(path)?);
        fill(&mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    };
    write().map_err(OutputError::io("write", path))
}

fn write_text(path: &Path, text: &str) -> Result<(), OutputError> {
    write_file(path, |out| out.write_all(text.as_bytes()))
}

fn write_csv<'a>(path: &Path, fields: &[Field], chunks: impl Iterator<Item = Columns<'a>>) -> Result<(), OutputError> {
    write_file(path, |out| columns::write_csv(out, fields, chunks))
}

fn write_parquet<'a>(
    path: &Path,
    fields: &[Field],
    chunks: impl Iterator<Item = Columns<'a>>,
) -> Result<(), OutputError> {
    write_file(path, |out| columns::write_parquet(out, fields, chunks).map_err(io::Error::other))
}

/// Reads a run back from its output folder: `summary.json`, `flows.parquet` or else `flows.csv`, and, where they
/// exist, ports and series.
pub fn read_run(dir: &Path) -> Result<RunResult, OutputError> {
    let path = dir.join(files::SUMMARY);
    let text = fs::read_to_string(&path).map_err(OutputError::io("read", &path))?;
    let mut result = summary::read_summary(&text).map_err(OutputError::malformed(&path))?;
    let groups = &result.groups;
    let flows = |columns: &Columns<'static>| schema::read_flows(columns, groups);
    result.flows = match read_parquet(&dir.join(files::FLOWS_PARQUET), &schema::FLOWS, flows)? {
        Some(rows) => rows,
        None => read_csv(&dir.join(files::FLOWS_CSV), &schema::FLOWS, flows)?,
    };
    let ports = dir.join(files::PORTS_CSV);
    if ports.exists() {
        result.ports = read_csv(&ports, &schema::PORTS, schema::read_ports)?;
    }
    let series = dir.join(files::QUEUE_SERIES);
    result.queue_samples = read_parquet(&series, &schema::QUEUE_SERIES, schema::read_queue_series)?.unwrap_or_default();
    let series = dir.join(files::THROUGHPUT_SERIES);
    let throughput = |columns: &Columns<'static>| schema::read_throughput_series(columns, groups);
    result.throughput_samples = read_parquet(&series, &schema::THROUGHPUT_SERIES, throughput)?.unwrap_or_default();
    let series = dir.join(files::REFLEX_SERIES);
    let reflex = |columns: &Columns<'static>| schema::read_reflex_series(columns, groups);
    result.reflex_samples = read_parquet(&series, &schema::REFLEX_SERIES, reflex)?.unwrap_or_default();
    let series = dir.join(files::WINDOW_SERIES);
    let windows = |columns: &Columns<'static>| schema::read_window_series(columns, groups);
    result.window_samples = read_parquet(&series, &schema::WINDOW_SERIES, windows)?.unwrap_or_default();
    Ok(result)
}

/// The page of a comparison, from its folder.
fn comparison_page(dir: &Path) -> Result<String, OutputError> {
    #[derive(Deserialize)]
    struct Comparison {
        title: String,
        variants: Vec<String>,
        folders: Vec<String>,
    }
    let path = dir.join(files::COMPARISON);
    let text = fs::read_to_string(&path).map_err(OutputError::io("read", &path))?;
    let read = serde_json::from_str(&text).map_err(|error| error.to_string());
    let comparison: Comparison = read.map_err(OutputError::malformed(&path))?;
    if comparison.folders.len() != comparison.variants.len() {
        return Err(OutputError::malformed(&path)("variants and folders differ in number".to_owned()));
    }
    let runs = comparison.folders.iter().map(|folder| read_run(&dir.join(folder))).collect::<Result<Vec<_>, _>>()?;
    let labels = comparison.variants.iter().zip(&runs);
    let variants: Vec<_> = labels.map(|(label, result)| Variant { label, result }).collect();
    let first = comparison.folders.first().map_or(Ok(String::new()), |folder| read_scenario(&dir.join(folder)))?;
    Ok(report::render_comparison(&comparison.title, &variants, &first))
}

fn read_scenario(dir: &Path) -> Result<String, OutputError> {
    let path = dir.join(files::SCENARIO);
    fs::read_to_string(&path).map_err(OutputError::io("read", &path))
}

/// Writes `report.html` of an output folder, of a run or of a comparison, anew from its other files; tells its path.
pub fn rebuild_report(dir: &Path) -> Result<PathBuf, OutputError> {
    let compared = dir.join(files::COMPARISON).exists();
    let page = if compared { comparison_page(dir)? } else { report::render(&read_run(dir)?, &read_scenario(dir)?) };
    let path = dir.join(files::REPORT);
    let fresh = dir.join(format!(".{}.new-{}", files::REPORT, std::process::id()));
    let written = write_text(&fresh, &page).map_err(|error| error.about(&fresh, &path));
    let replaced = written.and_then(|()| fs::rename(&fresh, &path).map_err(OutputError::io("write", &path)));
    if replaced.is_err() {
        // Half a report is of no use, and the error that stopped it is the one to tell.
        let _ = fs::remove_file(&fresh);
    }
    replaced.map(|()| path)
}

fn read_csv<T>(
    path: &Path,
    fields: &[Field],
    rows: impl Fn(&Columns<'static>) -> Result<T, String>,
) -> Result<T, OutputError> {
    let file = File::open(path).map_err(OutputError::io("read", path))?;
    columns::read_csv(io::BufReader::new(file), fields).and_then(|c| rows(&c)).map_err(OutputError::malformed(path))
}

/// The rows of a Parquet file; `None` if there is no such file.
fn read_parquet<T>(
    path: &Path,
    fields: &[Field],
    rows: impl Fn(&Columns<'static>) -> Result<T, String>,
) -> Result<Option<T>, OutputError> {
    match File::open(path) {
        Ok(file) => {
            let read = columns::read_parquet(file, fields).and_then(|columns| rows(&columns));
            read.map(Some).map_err(OutputError::malformed(path))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(OutputError::io("read", path)(error)),
    }
}

#[cfg(test)]
mod tests;
