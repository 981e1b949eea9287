//! The files of a run. `docs/output.md` describes them; the tables in it are generated from the columns' declarations.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::experiment::{FigureOutcome, Size};
use crate::report;
use crate::results::comparison::Variant;
use crate::results::decision::Decision;
use crate::results::repetition::Repeated;
use crate::results::table::Table;
use crate::results::{
    FLOWS, GroupInfo, OBJECTS, PORTS, QUEUE_SERIES, REFLEX_SERIES, RunResult, THROUGHPUT_SERIES, WINDOW_SERIES,
};
use crate::text_file;
use columns::{CHUNK_ROWS, Columns, Field, IDENTITY};
use folder::{write_file, write_text};
use schema::Identity;
use serde::Deserialize;

mod checksums;
mod columns;
mod description;
mod error;
pub mod files;
mod folder;
mod frame;
mod schema;
mod summary;

pub use checksums::{CheckDepth, check_point};
pub use description::{ColumnDescription, TableDescription, tables};
pub use error::OutputError;
pub use folder::check_folder;
pub use frame::{ColumnValues, FrameColumn, TableName, frame};
pub use summary::summary_json;

/// How an output folder is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    /// Replaces an output folder that is there already.
    pub force: bool,
    /// Leads every table with columns that say which run a row is of.
    pub identify: bool,
}

/// Writes the output folder of a run, whole or not at all. Missing parent folders are created. An existing folder is
/// refused, or replaced with `force` if it is an output folder. The label of the run says which variant of the scenario
/// it is; it may be empty.
pub fn write_run(
    dir: &Path,
    run: Variant<'_>,
    resolved_scenario_toml: &str,
    options: WriteOptions,
) -> Result<(), OutputError> {
    folder::write_whole(dir, options.force, |folder| {
        write_run_files(folder, run, resolved_scenario_toml, options.identify)?;
        write_text(&folder.join(files::REPORT), &report::render(run.result, resolved_scenario_toml))
    })
}

/// The same for one of many runs: without a report, of which [`write_sweep_report`] makes one of all, and with a list of its
/// files that [`check_point`] compares with them.
pub fn write_point(
    dir: &Path,
    run: Variant<'_>,
    resolved_scenario_toml: &str,
    options: WriteOptions,
) -> Result<(), OutputError> {
    folder::write_whole(dir, options.force, |folder| {
        write_run_files(folder, run, resolved_scenario_toml, options.identify)?;
        checksums::write_checksums(folder).map(drop)
    })
}

/// The same from the files of a run as another process read them: `files` are names and contents. What stands there is
/// replaced if it is an output folder.
///
/// # Errors
///
/// Names that no file of a run has are refused, a name of two files, files without a summary, and files that are not what
/// their list says, if it is among them.
pub fn place_run(dir: &Path, files: &[(&str, &[u8])]) -> Result<(), OutputError> {
    let malformed = |why: String| Err(OutputError::Malformed { path: dir.to_path_buf(), why });
    let is_list = |(name, _): &&(&str, &[u8])| *name == files::CHECKSUMS;
    if let Some((name, _)) = files.iter().find(|file| !is_list(file) && !files::OF_A_RUN.contains(&file.0)) {
        return malformed(format!("no file of a run is called {name:?}"));
    }
    let twice = |(at, file): (usize, &(&str, &[u8]))| files[..at].iter().any(|before| before.0 == file.0);
    if let Some((_, (name, _))) = files.iter().enumerate().find(|&file| twice(file)) {
        return malformed(format!("two files are called {name:?}"));
    }
    if !files.iter().any(|(name, _)| *name == files::SUMMARY) {
        return malformed(format!("there is no {}", files::SUMMARY));
    }
    folder::write_whole(dir, true, |folder| {
        let write = |(name, bytes): &(&str, &[u8])| write_file(&folder.join(name), |out| out.write_all(bytes));
        files.iter().filter(|file| !is_list(file)).try_for_each(write)?;
        let written = checksums::write_checksums(folder)?;
        match files.iter().find(is_list) {
            Some((name, list)) if *list != written.as_bytes() => {
                malformed(format!("its files are not those of its {name}"))
            }
            _ => Ok(()),
        }
    })
}

/// Writes the report of a sweep and, beside it, the plotting library that it loads.
pub fn write_sweep_report(dir: &Path, sweep: &report::Sweep<'_>) -> Result<(), OutputError> {
    write_text(&dir.join(files::PLOTLY), report::PLOTLY)?;
    write_text(&dir.join(files::REPORT), &report::render_sweep(sweep, files::PLOTLY))
}

/// Writes the output folder of a comparison, whole or not at all: `comparison.json`, `report.html`, and every
/// variant's own output folder, named after its label. `scenarios` are the variants' resolved scenarios. Of several seeds
/// the folders are of the first, and `repeated` is of all; beside it what follows from a goal.
pub fn write_comparison(
    dir: &Path,
    title: &str,
    variants: &[Variant<'_>],
    (repeated, decision): (Option<&Repeated>, Option<&Decision>),
    scenarios: &[String],
    options: WriteOptions,
) -> Result<(), OutputError> {
    assert_eq!(variants.len(), scenarios.len(), "a scenario for every variant");
    let names = folder_names(variants);
    folder::write_whole(dir, options.force, |folder| {
        for ((name, variant), scenario) in names.iter().zip(variants).zip(scenarios) {
            let own = folder.join(name);
            fs::create_dir(&own).map_err(OutputError::io("create", &own))?;
            write_run_files(&own, *variant, scenario, options.identify)?;
            write_text(&own.join(files::REPORT), &report::render(variant.result, scenario))?;
        }
        let json = report::comparison_json_in(title, variants, repeated, decision, &names);
        write_text(&folder.join(files::COMPARISON), &json)?;
        let first = scenarios.first().map_or("", String::as_str);
        write_text(&folder.join(files::REPORT), &report::render_comparison(title, variants, repeated, decision, first))
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

/// Writes what [`read_run`] reads into a folder, whole or not at all, and replaces what stands there: an output folder
/// without the files that are only for people.
pub(crate) fn write_data(dir: &Path, result: &RunResult, resolved_scenario_toml: &str) -> Result<(), OutputError> {
    folder::write_whole(dir, true, |folder| {
        write_data_files(&Files::new(folder, Variant { label: "", result }, false), resolved_scenario_toml)
    })
}

fn write_run_files(
    folder: &Path,
    run: Variant<'_>,
    resolved_scenario_toml: &str,
    identify: bool,
) -> Result<(), OutputError> {
    let files = Files::new(folder, run, identify);
    write_data_files(&files, resolved_scenario_toml)?;
    files.csv(files::FLOWS_CSV, &FLOWS, &run.result.flows)?;
    let objects = run.result.objects();
    if !objects.is_empty() {
        files.csv(files::OBJECTS, &OBJECTS, &objects)?;
    }
    Ok(())
}

fn write_data_files(files: &Files<'_>, resolved_scenario_toml: &str) -> Result<(), OutputError> {
    let result = files.result;
    write_text(&files.folder.join(files::SCENARIO), resolved_scenario_toml)?;
    write_text(&files.folder.join(files::SUMMARY), &summary_json(result))?;
    files.parquet(files::FLOWS_PARQUET, &FLOWS, &result.flows)?;
    files.csv(files::PORTS_CSV, &PORTS, &result.ports)?;
    files.series(files::QUEUE_SERIES, &QUEUE_SERIES, &result.queue_samples)?;
    files.series(files::THROUGHPUT_SERIES, &THROUGHPUT_SERIES, &result.throughput_samples)?;
    files.series(files::WINDOW_SERIES, &WINDOW_SERIES, &result.window_samples)?;
    files.series(files::REFLEX_SERIES, &REFLEX_SERIES, &result.reflex_samples)
}

/// The tables of one run on their way into its folder.
struct Files<'a> {
    folder: &'a Path,
    result: &'a RunResult,
    identity: Identity<'a>,
    /// Whether the identity leads every row.
    leads: bool,
}

impl<'a> Files<'a> {
    fn new(folder: &'a Path, run: Variant<'a>, leads: bool) -> Self {
        Self { folder, result: run.result, identity: Identity::of(run), leads }
    }

    fn fields<R>(&self, table: &Table<R>) -> Vec<Field> {
        let leading: &[Field] = if self.leads { &IDENTITY } else { &[] };
        [leading, &schema::fields(table)].concat()
    }

    fn chunks<'r, R>(&'r self, table: &'r Table<R>, rows: &'r [R]) -> impl Iterator<Item = Columns<'r>> {
        rows.chunks(CHUNK_ROWS).map(move |rows| {
            let mut columns = if self.leads { self.identity.columns(rows.len()) } else { Columns::new() };
            columns.extend(schema::columns(table, rows, &self.result.groups));
            columns
        })
    }

    fn csv<R>(&self, file: &str, table: &Table<R>, rows: &[R]) -> Result<(), OutputError> {
        write_file(&self.folder.join(file), |out| {
            columns::write_csv(out, &self.fields(table), self.chunks(table, rows))
        })
    }

    fn parquet<R>(&self, file: &str, table: &Table<R>, rows: &[R]) -> Result<(), OutputError> {
        write_file(&self.folder.join(file), |out| {
            let (fields, metadata) = (self.fields(table), self.identity.metadata());
            columns::write_parquet(out, &fields, metadata, self.chunks(table, rows)).map_err(io::Error::other)
        })
    }

    /// A series has a file only if there are samples.
    fn series<R>(&self, file: &str, table: &Table<R>, samples: &[R]) -> Result<(), OutputError> {
        if samples.is_empty() { Ok(()) } else { self.parquet(file, table, samples) }
    }
}

/// Reads a run back from its output folder: `summary.json`, `flows.parquet` or else `flows.csv`, and, where they
/// exist, ports and series.
pub fn read_run(dir: &Path) -> Result<RunResult, OutputError> {
    let path = dir.join(files::SUMMARY);
    let text = text_file::read_table(&path).map_err(OutputError::io("read", &path))?;
    let mut result = summary::read_summary(&text).map_err(OutputError::malformed(&path))?;
    let groups = &result.groups;
    result.flows = match read_parquet(&dir.join(files::FLOWS_PARQUET), &FLOWS, groups)? {
        Some(rows) => rows,
        None => read_csv(&dir.join(files::FLOWS_CSV), &FLOWS, groups)?,
    };
    let ports = dir.join(files::PORTS_CSV);
    if ports.exists() {
        result.ports = read_csv(&ports, &PORTS, groups)?;
    }
    result.queue_samples = read_series(&dir.join(files::QUEUE_SERIES), &QUEUE_SERIES, groups)?;
    result.throughput_samples = read_series(&dir.join(files::THROUGHPUT_SERIES), &THROUGHPUT_SERIES, groups)?;
    result.reflex_samples = read_series(&dir.join(files::REFLEX_SERIES), &REFLEX_SERIES, groups)?;
    result.window_samples = read_series(&dir.join(files::WINDOW_SERIES), &WINDOW_SERIES, groups)?;
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
    let text = text_file::read_table(&path).map_err(OutputError::io("read", &path))?;
    let read = serde_json::from_str(&text).map_err(|error| error.to_string());
    let comparison: Comparison = read.map_err(OutputError::malformed(&path))?;
    if comparison.folders.len() != comparison.variants.len() {
        return Err(OutputError::malformed(&path)("variants and folders differ in number".to_owned()));
    }
    for folder in &comparison.folders {
        // It comes from a file, so it may be any text.
        if Path::new(folder).file_name() != Some(OsStr::new(folder)) {
            let why = format!("{folder:?} is no name of a folder beside it");
            return Err(OutputError::malformed(&path)(why));
        }
        refuse_links_out(dir, &dir.join(folder))?;
    }
    let runs = comparison.folders.iter().map(|folder| read_run(&dir.join(folder))).collect::<Result<Vec<_>, _>>()?;
    let labels = comparison.variants.iter().zip(&runs);
    let variants: Vec<_> = labels.map(|(label, result)| Variant { label, result }).collect();
    let first = comparison.folders.first().map_or(Ok(String::new()), |folder| read_scenario(&dir.join(folder)))?;
    Ok(report::render_comparison(&comparison.title, &variants, None, None, &first))
}

/// Refuses a run's folder, or a file of it, that a link leads out of `root`: a page would show what stands elsewhere.
fn refuse_links_out(root: &Path, folder: &Path) -> Result<(), OutputError> {
    let whole = fs::canonicalize(root).map_err(OutputError::io("read", root))?;
    let files = files::OF_A_RUN.iter().chain([&files::COMPARISON]).map(|name| folder.join(name));
    for path in std::iter::once(folder.to_path_buf()).chain(files) {
        match fs::canonicalize(&path) {
            Ok(real) if !real.starts_with(&whole) => {
                let why = format!("a link leads out of {}", root.display());
                return Err(OutputError::malformed(&path)(why));
            }
            _ => {}
        }
    }
    Ok(())
}

fn read_scenario(dir: &Path) -> Result<String, OutputError> {
    let path = dir.join(files::SCENARIO);
    text_file::read_table(&path).map_err(OutputError::io("read", &path))
}

/// Writes `report.html` of an output folder anew, from the other files of the run or comparison. Returns its path. Nothing
/// outside of the folder is read, wherever its files lead.
pub fn rebuild_report(dir: &Path) -> Result<PathBuf, OutputError> {
    let compared = dir.join(files::COMPARISON).exists();
    refuse_links_out(dir, dir)?;
    let page = if compared { comparison_page(dir)? } else { report::render(&read_run(dir)?, &read_scenario(dir)?) };
    let path = dir.join(files::REPORT);
    let fresh = dir.join(format!(".{}.new-{}", files::REPORT, std::process::id()));
    // A link of that name would have another file written.
    let _ = fs::remove_file(&fresh);
    let written = write_text(&fresh, &page).map_err(|error| error.about(&fresh, &path));
    let replaced = written.and_then(|()| fs::rename(&fresh, &path).map_err(OutputError::io("write", &path)));
    if replaced.is_err() {
        // Half a report is of no use, and the error that stopped it is the one to tell.
        let _ = fs::remove_file(&fresh);
    }
    replaced.map(|()| path)
}

fn read_csv<R>(path: &Path, table: &Table<R>, groups: &[GroupInfo]) -> Result<Vec<R>, OutputError> {
    let file = File::open(path).map_err(OutputError::io("read", path))?;
    let columns = columns::read_csv(io::BufReader::new(file), &schema::fields(table));
    let mut rows = Vec::new();
    let read = columns.and_then(|columns| schema::add_rows(&mut rows, table, &columns, groups));
    read.map(|()| rows).map_err(OutputError::malformed(path))
}

/// The rows of a Parquet file; `None` if there is no such file.
fn read_parquet<R>(path: &Path, table: &Table<R>, groups: &[GroupInfo]) -> Result<Option<Vec<R>>, OutputError> {
    match File::open(path) {
        Ok(file) => {
            let mut rows = Vec::new();
            let is_set = |column: usize| table.columns[column].access.set.is_some();
            let read = columns::read_parquet(file, &schema::fields(table), is_set, |columns| {
                schema::add_rows(&mut rows, table, columns, groups)
            });
            read.map(|()| Some(rows)).map_err(OutputError::malformed(path))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(OutputError::io("read", path)(error)),
    }
}

/// The samples of a series; none if there is no such file.
fn read_series<R>(path: &Path, table: &Table<R>, groups: &[GroupInfo]) -> Result<Vec<R>, OutputError> {
    Ok(read_parquet(path, table, groups)?.unwrap_or_default())
}

#[cfg(test)]
mod tests;
