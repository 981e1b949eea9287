use std::fs;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::results::table::tests::{distinct_flow, distinct_port};
use crate::results::table::{Kind, Value};
use crate::results::{FlowState, samples};

const NEW: WriteOptions = WriteOptions { force: false, identify: false };
const REPLACED: WriteOptions = WriteOptions { force: true, identify: false };

/// A run that is no variant.
fn plain(result: &RunResult) -> Variant<'_> {
    Variant { label: "", result }
}

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
    write_run(&out, plain(&samples::run()), "seed = 7\n", NEW).unwrap();
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
    write_run(&out, plain(&bare), "", REPLACED).unwrap();
    for series in [files::QUEUE_SERIES, files::THROUGHPUT_SERIES, files::REFLEX_SERIES, files::WINDOW_SERIES] {
        assert!(!out.join(series).exists());
    }
}

fn names<R>(table: &Table<R>) -> String {
    table.columns.iter().map(|column| column.name).collect::<Vec<_>>().join(",")
}

/// The schema is a promise to readers' scripts: a change of a name or of the order is a change of the format.
#[test]
fn columns_keep_their_names() {
    let scratch = Scratch::new("columns");
    let out = scratch.0.join("run");
    write_run(&out, plain(&samples::run()), "", NEW).unwrap();
    let header = |file| fs::read_to_string(out.join(file)).unwrap().lines().next().unwrap().to_owned();
    assert_eq!(
        header(files::FLOWS_CSV),
        "flow,group,request,source,destination,size_bytes,start_ps,completed_ps,fct_us,ideal_fct_ps,slowdown,delivered_bytes,\
         given_up_bytes,low_sent_bytes,low_ps,done_by_ps,said_late_ps,state,retransmitted_packets,timeouts,marked_packets,dropped_packets,\
         fair_share,fluid_share,pauses,paused_ps,messages,needed_messages,delivered_messages,record_error,\
         credits,wasted_credits,reactive_bytes,reorder_bytes,duplicate_bytes,overtaken_packets,object,shares_object,symbols,excess_symbols,\
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
    assert_eq!(names(&QUEUE_SERIES), "at_ps,port,queue,packets,bytes,red_bytes");
    assert_eq!(names(&THROUGHPUT_SERIES), "at_ps,group,delivered_bytes,reactive_bytes");
    assert_eq!(
        names(&REFLEX_SERIES),
        "at_ps,flow,group,interval_ps,acked_bytes,fair_rate_bytes_per_s,rate_budget_bytes,delivery_budget_bytes,\
         phase,low"
    );
    assert_eq!(names(&WINDOW_SERIES), "at_ps,flow,group,window_packets,alpha,rtt_ps");
    assert_eq!(
        names(&OBJECTS),
        "object,group,receiver,sources,size_bytes,start_ps,completed_ps,completion_time_us,delivered_bytes,\
         largest_part,symbols,excess_symbols,decoded_blocks,whole_blocks"
    );
}

#[test]
fn a_run_read_back_is_the_run_written() {
    let scratch = Scratch::new("round_trip");
    let out = scratch.0.join("run");
    let mut result = samples::run();
    result.seed = u64::MAX;
    result.flows[0].bytes = u64::MAX;
    write_run(&out, plain(&result), "", NEW).unwrap();
    assert_eq!(read_run(&out).unwrap(), result, "from Parquet");
    fs::remove_file(out.join(files::FLOWS_PARQUET)).unwrap();
    assert_eq!(read_run(&out).unwrap(), result, "from CSV");
}

/// A row in which every column differs: what stands in CSV, and what is read back from it and from Parquet.
#[test]
fn known_rows_stand_in_their_columns() {
    let scratch = Scratch::new("known");
    let out = scratch.0.join("run");
    let mut result = samples::run();
    (result.flows, result.ports) = (vec![distinct_flow()], vec![distinct_port()]);
    write_run(&out, plain(&result), "", NEW).unwrap();
    let line = |file| fs::read_to_string(out.join(file)).unwrap().lines().nth(1).unwrap().to_owned();
    let slowdown = 5_000_001.0 / 108.0;
    assert_eq!(
        line(files::FLOWS_CSV),
        format!(
            "101,training,102,103,104,105,106,5000107,5.000001,108,{slowdown},109,110,111,112,7,8,sent_with_loss,113,114,115,\
             116,0.117,1.118,119,120,123,122,121,-0.124,125,126,127,128,129,135,130,1,131,132,133,134"
        )
    );
    assert_eq!(
        line(files::PORTS_CSV),
        "1,2,\"leaf 0 -> host 3, \"\"µ\"\"\",best_effort,99,99000,87,98987,8,3,3000,4,4000,5,5000,6,6000,7,7000,12,13,11,9,10"
    );
    assert_eq!(read_run(&out).unwrap(), result, "from Parquet");
    fs::remove_file(out.join(files::FLOWS_PARQUET)).unwrap();
    assert_eq!(read_run(&out).unwrap(), result, "from CSV");
}

/// Rows whose columns hold what `words` give, as far as it fits; `mend` makes of each a row that can be.
fn random_rows<R>(table: &Table<R>, words: &[u64], mend: fn(&mut R), groups: &[GroupInfo]) -> Vec<R> {
    let rows = words.chunks(table.columns.len()).map(|words| {
        let mut row = (table.blank)();
        for (column, word) in table.columns.iter().zip(words) {
            let Some(set) = column.access.set else { continue };
            for word in [*word, word % 251] {
                let number = (word % 7 > 0).then_some(word as f64 / 3e9 - 1e9);
                let value = match column.access.kind {
                    Kind::Integer => Value::Integer(word),
                    Kind::OptionalInteger => Value::OptionalInteger((word % 5 > 0).then_some(word)),
                    Kind::OptionalNumber => Value::OptionalNumber(number),
                    Kind::Text if column.name == "state" => {
                        Value::Text(FlowState::ALL[(word % 4) as usize].name().into())
                    }
                    Kind::Text if column.name == "phase" => Value::Text("exploit".into()),
                    Kind::Text if column.name == "group" => {
                        Value::Text((&groups[word as usize % groups.len()].name).into())
                    }
                    Kind::Text => Value::Text(format!("\"{word}\",\n µ").into()),
                };
                if set(&mut row, &value, groups).is_ok() {
                    break;
                }
            }
        }
        mend(&mut row);
        row
    });
    rows.collect()
}

/// Writes rows as CSV and as Parquet, with and without the columns that identify their run, and reads them back.
fn come_back<R: PartialEq + std::fmt::Debug>(table: &Table<R>, words: &[u64], mend: fn(&mut R)) {
    let mut result = samples::run_with(0, 1.0);
    result.groups[1].name = "a, \"b\"\nµ".into();
    let rows = random_rows(table, words, mend, &result.groups);
    let scratch = Scratch::new(&format!("random-{}", table.files.replace([' ', ','], "")));
    for identify in [false, true] {
        let files = Files::new(&scratch.0, Variant { label: "strict, \"1\"", result: &result }, identify);
        files.csv("rows.csv", table, &rows).unwrap();
        files.parquet("rows.parquet", table, &rows).unwrap();
        assert_eq!(read_csv(&scratch.0.join("rows.csv"), table, &result.groups).unwrap(), rows);
        assert_eq!(read_parquet(&scratch.0.join("rows.parquet"), table, &result.groups).unwrap().unwrap(), rows);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever rows of whichever table are written, the same are read back from both kinds of file.
    #[test]
    fn random_rows_come_back(words in vec(0..1u64 << 62, 0..200)) {
        come_back(&FLOWS, &words, |flow| flow.completed = flow.completed.map(|at| at.max(flow.start)));
        come_back(&OBJECTS, &words, |object| object.completed = object.completed.map(|at| at.max(object.start)));
        come_back(&PORTS, &words, |port| {
            let (admitted, left) = (&mut port.counters.admitted, port.left);
            admitted.packets = admitted.packets.max(left.packets.into());
            admitted.bytes = admitted.bytes.max(left.bytes);
        });
        come_back(&QUEUE_SERIES, &words, |_| ());
        come_back(&THROUGHPUT_SERIES, &words, |_| ());
        come_back(&REFLEX_SERIES, &words, |_| ());
        come_back(&WINDOW_SERIES, &words, |_| ());
    }
}

/// Rows say which run they are of if the user asks for it; otherwise CSV has no more than its table, and Parquet says it
/// beside its rows.
#[test]
fn files_say_which_run_they_are_of() {
    let scratch = Scratch::new("identity");
    let result = samples::run();
    let run = Variant { label: "strict <1>", result: &result };
    for identify in [false, true] {
        let out = scratch.0.join(identify.to_string());
        write_run(&out, run, "", WriteOptions { force: false, identify }).unwrap();
        assert_eq!(read_run(&out).unwrap(), result);
        let csv = fs::read_to_string(out.join(files::PORTS_CSV)).unwrap();
        let mut lines = csv.lines();
        let (header, first) = (lines.next().unwrap(), lines.next().unwrap());
        assert_eq!(header.starts_with("scenario,variant,seed,digest,port,queue,"), identify, "{header}");
        assert_eq!(first.starts_with("leaf-spine <mix>,strict <1>,7,00c0ffee12345678,0,0,"), identify, "{first}");
        for file in [files::FLOWS_PARQUET, files::QUEUE_SERIES, files::WINDOW_SERIES] {
            let metadata = columns::parquet_metadata(File::open(out.join(file)).unwrap());
            let of = |key: &str| metadata.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_str());
            assert_eq!(of("pliant.scenario"), Some("leaf-spine <mix>"));
            assert_eq!(of("pliant.variant"), Some("strict <1>"));
            assert_eq!(of("pliant.seed"), Some("7"));
            assert_eq!(of("pliant.digest"), Some("00c0ffee12345678"));
            assert_eq!(of("pliant.version"), Some(env!("CARGO_PKG_VERSION")));
        }
    }
    let mut lines = Vec::new();
    for (folder, skip) in [("false", 0), ("true", "leaf-spine <mix>,strict <1>,7,00c0ffee12345678,".len())] {
        let text = fs::read_to_string(scratch.0.join(folder).join(files::FLOWS_CSV)).unwrap();
        lines.push(text.lines().skip(1).map(|line| line[skip..].to_owned()).collect::<Vec<_>>());
    }
    assert_eq!(lines[0], lines[1], "the other columns are the same");
}

#[test]
fn more_flows_than_a_chunk_keep_their_order() {
    let scratch = Scratch::new("chunks");
    let out = scratch.0.join("run");
    let mut result = samples::run();
    result.flows = (0..CHUNK_ROWS as u64 + 3).map(|id| samples::flow(id, 1000)).collect();
    write_run(&out, plain(&result), "", NEW).unwrap();
    assert_eq!(read_run(&out).unwrap().flows, result.flows);
}

#[test]
fn an_existing_folder_is_refused_and_untouched() {
    let scratch = Scratch::new("exists");
    let out = scratch.0.join("run");
    write_run(&out, plain(&samples::run()), "first", NEW).unwrap();
    let error = write_run(&out, plain(&samples::run()), "second", NEW).unwrap_err().to_string();
    assert!(error.contains("run exists") && error.lines().count() == 1, "{error}");
    assert_eq!(fs::read_to_string(out.join(files::SCENARIO)).unwrap(), "first");
    write_run(&out, plain(&samples::run()), "third", REPLACED).unwrap();
    assert_eq!(fs::read_to_string(out.join(files::SCENARIO)).unwrap(), "third");
    assert_eq!(scratch.entries(), ["run"]);
}

/// A worker of a cluster sends the files of a point with their list. What came otherwise than they were written is no point.
#[test]
fn a_point_is_placed_as_another_process_wrote_it() {
    let scratch = Scratch::new("placed");
    let (from, to) = (scratch.0.join("from"), scratch.0.join("to"));
    write_point(&from, plain(&samples::run()), "", NEW).unwrap();
    let names: Vec<_> =
        files::OF_A_RUN.into_iter().chain([files::CHECKSUMS]).filter(|name| from.join(name).exists()).collect();
    let contents: Vec<_> = names.iter().map(|name| fs::read(from.join(name)).unwrap()).collect();
    let sent: Vec<_> = names.iter().copied().zip(contents.iter().map(Vec::as_slice)).collect();
    place_run(&to, &sent).unwrap();
    assert_eq!(check_point(&to, CheckDepth::Content), Ok(()));
    let placed: Vec<_> = names.iter().map(|name| fs::read(to.join(name)).unwrap()).collect();
    assert_eq!(placed, contents);

    let of_flows = names.iter().position(|name| *name == files::FLOWS_CSV).unwrap();
    let damaged: Vec<_> =
        sent.iter().enumerate().map(|(at, file)| if at == of_flows { (file.0, &file.1[1..]) } else { *file }).collect();
    let error = place_run(&scratch.0.join("damaged"), &damaged).unwrap_err().to_string();
    assert!(error.contains("not those of its checksums.txt"), "{error}");
    let error = place_run(&scratch.0.join("foreign"), &[("passwd", &b"x"[..])]).unwrap_err().to_string();
    assert!(error.contains("passwd"), "{error}");
    let twice: Vec<_> = sent.iter().copied().chain([(files::SCENARIO, &b"another"[..])]).collect();
    let error = place_run(&scratch.0.join("twice"), &twice).unwrap_err().to_string();
    assert!(error.contains("two files are called \"scenario.toml\""), "{error}");
    assert_eq!(scratch.entries(), ["from", "to"]);
}

#[test]
fn force_replaces_only_what_pliant_wrote() {
    let scratch = Scratch::new("foreign");
    let out = scratch.0.join("thesis");
    fs::create_dir(&out).unwrap();
    write_run(&out, plain(&samples::run()), "", NEW).expect("an empty folder is as good as none");
    fs::remove_file(out.join(files::SUMMARY)).unwrap();
    assert!(matches!(write_run(&out, plain(&samples::run()), "", REPLACED), Err(OutputError::NotAnOutput(_))));
    let file = scratch.0.join("file");
    fs::write(&file, "mine").unwrap();
    assert!(matches!(write_run(&file, plain(&samples::run()), "", REPLACED), Err(OutputError::NotAFolder(_))));
    let below = write_run(&file.join("run"), plain(&samples::run()), "", NEW).unwrap_err();
    assert!(below.to_string().contains("file"), "{below}");
    assert!(matches!(write_run(Path::new("/"), plain(&samples::run()), "", REPLACED), Err(OutputError::NotAName(_))));
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

    write_run(&out, plain(&samples::run()), "first", NEW).unwrap();
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
    write_comparison(&out, "four", &variants, (None, None), &scenarios, NEW).unwrap();
    assert_eq!(entries(&out), ["1_a_b", "2_report.html", "3_..", "a_b", "comparison.json", "report.html"]);
    assert_eq!(read_run(&out.join("1_a_b")).unwrap(), result);

    let first = fs::read_to_string(out.join(files::REPORT)).unwrap();
    fs::remove_file(out.join(files::REPORT)).unwrap();
    rebuild_report(&out).unwrap();
    assert_eq!(fs::read_to_string(out.join(files::REPORT)).unwrap(), first);

    write_comparison(&out, "two", &variants[..2], (None, None), &scenarios[..2], REPLACED).unwrap();
    assert_eq!(entries(&out), ["1_a_b", "a_b", "comparison.json", "report.html"]);
}

/// A folder from elsewhere shows nothing but itself: folders of `comparison.json` are names, and links that lead out of the
/// folder are refused by name, also a link in the place of the page that is being written.
#[test]
fn a_report_reads_its_own_folder_only() {
    use std::os::unix::fs::symlink;
    let scratch = Scratch::new("own");
    let (out, elsewhere) = (scratch.0.join("both"), scratch.0.join("elsewhere"));
    let result = samples::run();
    let variants = ["a", "b"].map(|label| Variant { label, result: &result });
    write_run(&elsewhere, plain(&result), "secret = 1", NEW).unwrap();
    let scenarios = ["first".to_owned(), "second".to_owned()];
    write_comparison(&out, "two", &variants, (None, None), &scenarios, NEW).unwrap();
    let (json, page) = (out.join(files::COMPARISON), out.join(files::REPORT));
    let (written, first) = (fs::read_to_string(&json).unwrap(), fs::read_to_string(&page).unwrap());
    let refused = |why: &str| {
        let error = rebuild_report(&out).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert_eq!(fs::read_to_string(&page).unwrap(), first);
    };
    let absolute = elsewhere.to_str().unwrap();
    for name in ["../elsewhere", absolute, "a/../../elsewhere", "a/.", "..", "."] {
        let value: serde_json::Value = serde_json::from_str(&written).unwrap();
        let value =
            serde_json::json!({ "title": value["title"], "variants": value["variants"], "folders": [name, "b"] });
        fs::write(&json, value.to_string()).unwrap();
        refused(&format!("{name:?} is no name of a folder beside it"));
    }
    fs::write(&json, &written).unwrap();
    let (own, aside) = (out.join("a"), out.join("aside"));
    fs::rename(&own, &aside).unwrap();
    symlink(&elsewhere, &own).unwrap();
    refused("both/a: a link leads out of ");
    fs::remove_file(&own).unwrap();
    symlink(&aside, &own).unwrap();
    rebuild_report(&out).expect("a link within the folder");
    let scenario = aside.join(files::SCENARIO);
    fs::remove_file(&scenario).unwrap();
    symlink(elsewhere.join(files::SCENARIO), &scenario).unwrap();
    refused("scenario.toml: a link leads out of ");
    let single = rebuild_report(&aside).unwrap_err().to_string();
    assert!(single.contains("scenario.toml: a link leads out of "), "{single}");
    fs::remove_file(&scenario).unwrap();
    fs::write(&scenario, "first").unwrap();

    let victim = scratch.0.join("victim");
    fs::write(&victim, "kept").unwrap();
    symlink(&victim, out.join(format!(".{}.new-{}", files::REPORT, std::process::id()))).unwrap();
    rebuild_report(&out).unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
}

#[test]
fn a_report_is_rebuilt_from_the_other_files() {
    let scratch = Scratch::new("rebuild");
    let out = scratch.0.join("run");
    write_run(&out, plain(&samples::run()), "", NEW).unwrap();
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
    write_run(&out, plain(&samples::run()), "", NEW).unwrap();
    let parquet = fs::read(out.join(files::FLOWS_PARQUET)).unwrap();
    fs::write(out.join(files::FLOWS_PARQUET), &parquet[..parquet.len() / 2]).unwrap();
    let half = read_run(&out).unwrap_err().to_string();
    assert!(half.contains(files::FLOWS_PARQUET), "{half}");
    fs::write(out.join(files::SUMMARY), "{}").unwrap();
    assert!(matches!(read_run(&out), Err(OutputError::Malformed { .. })));
}
