use std::fs;

use super::*;
use crate::results::samples;

/// A folder of one test, removed with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pliant-output-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn entries(&self) -> Vec<String> {
        entries(&self.0)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_run_leaves_these_files() {
    let scratch = Scratch::new("files");
    let out = scratch.0.join("deep/run");
    write_run(&out, &samples::run(), "seed = 7\n", false).unwrap();
    let expected = [
        "flows.csv",
        "flows.parquet",
        "ports.csv",
        "queue_series.parquet",
        "reflex_series.parquet",
        "report.html",
        "scenario.toml",
        "summary.json",
        "throughput_series.parquet",
        "window_series.parquet",
    ];
    assert_eq!(entries(&out), expected);
    assert_eq!(fs::read_to_string(out.join(files::SCENARIO)).unwrap(), "seed = 7\n");
    assert_eq!(entries(&scratch.0.join("deep")), ["run"], "no temporary folder stays");

    let mut bare = samples::run();
    bare.queue_samples.clear();
    bare.throughput_samples.clear();
    bare.reflex_samples.clear();
    bare.window_samples.clear();
    write_run(&out, &bare, "", true).unwrap();
    for series in [files::QUEUE_SERIES, files::THROUGHPUT_SERIES, files::REFLEX_SERIES, files::WINDOW_SERIES] {
        assert!(!out.join(series).exists());
    }
}

/// The schema is a promise to readers' scripts: a change here is a change of `docs/output.md` and of the format.
#[test]
fn columns_keep_their_names() {
    let scratch = Scratch::new("columns");
    let out = scratch.0.join("run");
    write_run(&out, &samples::run(), "", false).unwrap();
    let header = |file| fs::read_to_string(out.join(file)).unwrap().lines().next().unwrap().to_owned();
    assert_eq!(
        header(files::FLOWS_CSV),
        "flow,group,request,source,destination,size_bytes,start_ps,completed_ps,fct_us,ideal_fct_ps,slowdown,delivered_bytes,\
         given_up_bytes,low_sent_bytes,low_ps,state,retransmitted_packets,timeouts,marked_packets,dropped_packets,\
         fair_share,fluid_share,pauses,paused_ps,messages,needed_messages,delivered_messages,record_error,\
         credits,wasted_credits,reactive_bytes,reorder_bytes,duplicate_bytes,object,shares_object,symbols,excess_symbols,\
         decoded_blocks,whole_blocks"
    );
    assert_eq!(
        header(files::PORTS_CSV),
        "port,queue,port_name,queue_name,enqueued_packets,enqueued_bytes,dequeued_packets,dequeued_bytes,\
         marked_packets,dropped_tail_packets,dropped_tail_bytes,dropped_colour_packets,dropped_colour_bytes,\
         dropped_shared_buffer_packets,dropped_shared_buffer_bytes,dropped_early_packets,dropped_early_bytes,\
         dropped_loss_packets,dropped_loss_bytes,\
         left_packets,left_bytes,max_packets,trimmed_packets,returned_packets"
    );
    let names = |fields: &[Field]| fields.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",");
    assert_eq!(names(&schema::QUEUE_SERIES), "at_ps,port,queue,packets,bytes,red_bytes");
    assert_eq!(names(&schema::THROUGHPUT_SERIES), "at_ps,group,delivered_bytes,reactive_bytes");
    assert_eq!(
        names(&schema::REFLEX_SERIES),
        "at_ps,flow,group,interval_ps,acked_bytes,fair_rate_bytes_per_s,rate_budget_bytes,delivery_budget_bytes,\
         phase,low"
    );
    assert_eq!(names(&schema::WINDOW_SERIES), "at_ps,flow,group,window_packets,alpha,rtt_ps");
    assert_eq!(
        names(&schema::OBJECTS),
        "object,group,receiver,sources,size_bytes,start_ps,completed_ps,completion_time_us,delivered_bytes,\
         largest_part,symbols,excess_symbols,decoded_blocks,whole_blocks"
    );
}

#[test]
fn every_column_is_documented() {
    let schema = include_str!("../../../../docs/output.md");
    let series: [&[Field]; 4] =
        [&schema::QUEUE_SERIES, &schema::THROUGHPUT_SERIES, &schema::REFLEX_SERIES, &schema::WINDOW_SERIES];
    let tables: [&[Field]; 3] = [&schema::FLOWS, &schema::PORTS, &schema::OBJECTS];
    for (name, _) in tables.into_iter().chain(series).flatten() {
        let name = match name.strip_prefix("dropped_").and_then(|rest| rest.rsplit_once('_')) {
            Some((reason, unit)) if !reason.is_empty() => {
                assert!(schema.contains(&format!("`{reason}`")), "reason {reason}");
                format!("dropped_REASON_{unit}")
            }
            _ => (*name).to_owned(),
        };
        assert!(schema.contains(&format!("`{name}`")), "column {name} is missing");
    }
}

#[test]
fn a_run_read_back_is_the_run_written() {
    let scratch = Scratch::new("round_trip");
    let out = scratch.0.join("run");
    let mut result = samples::run();
    result.seed = u64::MAX;
    result.flows[0].bytes = u64::MAX;
    write_run(&out, &result, "", false).unwrap();
    assert_eq!(read_run(&out).unwrap(), result, "from Parquet");
    fs::remove_file(out.join(files::FLOWS_PARQUET)).unwrap();
    assert_eq!(read_run(&out).unwrap(), result, "from CSV");
}

#[test]
fn more_flows_than_a_chunk_keep_their_order() {
    let scratch = Scratch::new("chunks");
    let out = scratch.0.join("run");
    let mut result = samples::run();
    result.flows = (0..CHUNK_ROWS as u64 + 3).map(|id| samples::flow(id, 1000)).collect();
    write_run(&out, &result, "", false).unwrap();
    assert_eq!(read_run(&out).unwrap().flows, result.flows);
}

#[test]
fn an_existing_folder_is_refused_and_untouched() {
    let scratch = Scratch::new("exists");
    let out = scratch.0.join("run");
    write_run(&out, &samples::run(), "first", false).unwrap();
    let error = write_run(&out, &samples::run(), "second", false).unwrap_err().to_string();
    assert!(error.contains("run exists") && error.lines().count() == 1, "{error}");
    assert_eq!(fs::read_to_string(out.join(files::SCENARIO)).unwrap(), "first");
    write_run(&out, &samples::run(), "third", true).unwrap();
    assert_eq!(fs::read_to_string(out.join(files::SCENARIO)).unwrap(), "third");
    assert_eq!(scratch.entries(), ["run"]);
}

#[test]
fn force_replaces_only_what_pliant_wrote() {
    let scratch = Scratch::new("foreign");
    let out = scratch.0.join("thesis");
    fs::create_dir(&out).unwrap();
    write_run(&out, &samples::run(), "", false).expect("an empty folder is as good as none");
    fs::remove_file(out.join(files::SUMMARY)).unwrap();
    assert!(matches!(write_run(&out, &samples::run(), "", true), Err(OutputError::NotAnOutput(_))));
    let file = scratch.0.join("file");
    fs::write(&file, "mine").unwrap();
    assert!(matches!(write_run(&file, &samples::run(), "", true), Err(OutputError::NotAFolder(_))));
    let below = write_run(&file.join("run"), &samples::run(), "", false).unwrap_err();
    assert!(below.to_string().contains("file"), "{below}");
    assert!(matches!(write_run(Path::new("/"), &samples::run(), "", true), Err(OutputError::NotAName(_))));
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn a_failing_writer_leaves_nothing() {
    let scratch = Scratch::new("failing");
    let out = scratch.0.join("run");
    let fail = |folder: &Path| {
        write_text(&folder.join("half"), "half")?;
        let full = folder.join("full");
        Err(OutputError::io("write", &full)(io::ErrorKind::StorageFull.into()))
    };
    let error = folder::write_whole(&out, false, fail).unwrap_err().to_string();
    let asked = format!("cannot write {}: ", out.display());
    assert!(error.starts_with(&asked) && error.lines().count() == 1, "{error}");
    assert_eq!(scratch.entries(), [""; 0]);

    write_run(&out, &samples::run(), "first", false).unwrap();
    folder::write_whole(&out, true, fail).unwrap_err();
    assert_eq!(scratch.entries(), ["run"]);
    assert_eq!(read_run(&out).unwrap(), samples::run(), "the old folder stands");
}

#[test]
fn a_comparison_keeps_every_variants_folder() {
    let scratch = Scratch::new("comparison");
    let out = scratch.0.join("both");
    let labels = ["a/b", "a_b", "report.html", ".."];
    let result = samples::run();
    let variants = labels.map(|label| Variant { label, result: &result });
    let scenarios = labels.map(str::to_owned);
    write_comparison(&out, "four", &variants, &scenarios, false).unwrap();
    assert_eq!(entries(&out), ["1_a_b", "2_report.html", "3_..", "a_b", "comparison.json", "report.html"]);
    assert_eq!(read_run(&out.join("1_a_b")).unwrap(), result);

    let first = fs::read_to_string(out.join(files::REPORT)).unwrap();
    fs::remove_file(out.join(files::REPORT)).unwrap();
    rebuild_report(&out).unwrap();
    assert_eq!(fs::read_to_string(out.join(files::REPORT)).unwrap(), first);

    write_comparison(&out, "two", &variants[..2], &scenarios[..2], true).unwrap();
    assert_eq!(entries(&out), ["1_a_b", "a_b", "comparison.json", "report.html"]);
}

#[test]
fn a_report_is_rebuilt_from_the_other_files() {
    let scratch = Scratch::new("rebuild");
    let out = scratch.0.join("run");
    write_run(&out, &samples::run(), "", false).unwrap();
    let first = fs::read_to_string(out.join(files::REPORT)).unwrap();
    fs::remove_file(out.join(files::REPORT)).unwrap();
    let path = rebuild_report(&out).unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), first);
    assert_eq!(entries(&out).len(), 10, "no temporary file stays");
}

#[test]
fn damaged_files_are_named() {
    let scratch = Scratch::new("damaged");
    let out = scratch.0.join("run");
    let missing = read_run(&out).unwrap_err().to_string();
    assert!(missing.contains(files::SUMMARY), "{missing}");
    write_run(&out, &samples::run(), "", false).unwrap();
    let parquet = fs::read(out.join(files::FLOWS_PARQUET)).unwrap();
    fs::write(out.join(files::FLOWS_PARQUET), &parquet[..parquet.len() / 2]).unwrap();
    let half = read_run(&out).unwrap_err().to_string();
    assert!(half.contains(files::FLOWS_PARQUET), "{half}");
    fs::write(out.join(files::SUMMARY), "{}").unwrap();
    assert!(matches!(read_run(&out), Err(OutputError::Malformed { .. })));
}
