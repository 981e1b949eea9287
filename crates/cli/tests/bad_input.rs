//! Broken scenarios, distributions and traces: exit code 2, one line that names file and line or key, nothing written.

mod common;

use common::{limited, pliant, stderr};

/// Every file under `tests/broken`, and what must stand in the one line about it.
const BROKEN: &[(&str, &[&str])] = &[
    ("atp_bound_beyond_all", &["atp_bound_beyond_all.toml:17:", "`traffic.jobs.contract.min_delivery`", "[0, 1]"]),
    ("atp_class_beyond_queues", &["atp_class_beyond_queues.toml:15:", "`traffic.jobs.class`", "class 32"]),
    ("atp_endless", &["atp_endless.toml:11:", "`traffic.jobs.messages.gap`", "without an end"]),
    ("atp_setting_of_part_that_is_off", &["is_off.toml:17:", "`traffic.jobs.atp.target_loss`", "no rate control"]),
    ("atp_target_loss", &["atp_target_loss.toml:17:", "`traffic.jobs.atp.target_loss`", "must lie in (0, 1)"]),
    ("atp_without_bound", &["atp_without_bound.toml:17:", "`traffic.jobs.contract.min_delivery`", "above 0"]),
    ("b4_rate", &["b4_rate.toml:6:", "`rate` = 0", "between 1 and"]),
    ("bare_number", &["bare_number.toml:10:", "`traffic.web.size`", "a quantity has its unit"]),
    ("class_without_queue", &["class_without_queue.toml:16:", "`traffic.web.class`", "class 1"]),
    ("contract_not_honoured", &["contract_not_honoured.toml:12:", "`traffic.web.contract.min_delivery`", "cubic"]),
    ("credit_setting_foreign", &["credit_setting_foreign.toml:15:", "`traffic.web.credit.red_acks`", "only flexpass"]),
    ("credit_setting_range", &["credit_setting_range.toml:15:", "`traffic.web.credit.jitter`", "must lie in [0, 1)"]),
    ("credit_class_not_shaped", &["credit_class_not_shaped.toml:15:", "`traffic.web.credit.class`", "is not shaped"]),
    ("credits_beyond_weight", &["beyond_weight.toml:32:", "`traffic.web.transport`", "\"new\" is sure of 50 %"]),
    ("credits_of_jumbo_frames", &["jumbo_frames.toml:15:", "`traffic.web.transport`", "packets of 9038 bytes"]),
    ("credits_not_shaped", &["credits_not_shaped.toml:14:", "`traffic.web.transport`", "is not shaped"]),
    ("credits_sprayed", &["credits_sprayed.toml:2:", "`routing`", "flexpass"]),
    (
        "dccp_ack_ratio",
        &["dccp_ack_ratio.toml:12:", "`traffic.low.dccp.ack_ratio`", "must be a number of packets, 1 to 65535"],
    ),
    ("dccp_tcp", &["dccp_tcp.toml:12:", "`traffic.low.tcp`", "dccp has no settings of TCP"]),
    ("deployed_out_of_range", &["deployed_out_of_range.toml:2:", "`deployment.deployed`", "[0, 1]"]),
    ("duplicate_group", &["duplicate_group.toml:12:", "duplicate key `web`"]),
    ("duplicate_queue", &["duplicate_queue.toml:13:", "`queues.queue.1`", "two queues have this name"]),
    ("duplicates_of_nobody", &["duplicates_of_nobody.toml:15:", "traffic.copies.of", "\"wep\"", "did you mean `web`?"]),
    ("empty_distribution", &["empty_distribution.toml:10:", "traffic.web.workload", "empty.csv: no rows"]),
    ("empty_flow", &["empty_flow.toml:10:", "empty_flow.csv:3:", "0 bytes"]),
    ("falling_distribution", &["falling_distribution.toml:10:", "falling.csv:4:", "falls"]),
    ("foreign_setting", &["foreign_setting.toml:12:", "`traffic.web.tcp.target`", "tcp-lp", "only ledbat, ledbat++"]),
    ("huge_number", &["huge_number.toml:5:", "`99999999999999999999` is too large"]),
    ("host_out_of_range", &["host_out_of_range.toml:12:", "traffic.web.receivers", "host 4"]),
    ("legacy_without_deployment", &["legacy_without_deployment.toml:15:", "`traffic.web.legacy`", "[deployment]"]),
    ("homa_class", &["homa_class.toml:", "`traffic.low.class`", "takes class 3"]),
    ("homa_cutoffs", &["homa_cutoffs.toml:15:", "`traffic.low.homa.cutoffs`", "granted data needs a level"]),
    ("hosts_trim", &["hosts_trim.toml:", "`host_queues.queue.1`", "hosts do not trim"]),
    ("ndp_not_trimmed", &["ndp_not_trimmed.toml:14:", "`traffic.low.transport`", "needs switches that trim"]),
    ("ndp_window", &["ndp_window.toml:15:", "`traffic.low.ndp.initial_window`", "at least 1 packet"]),
    ("scdp_thresholds", &["scdp_thresholds.toml:15:", "`traffic.low.scdp.thresholds`", "must not fall"]),
    ("trim_without_headers", &["trim_without_headers.toml:9:", "`queues.queue.0`", "\"return-to-sender\""]),
    ("incast_overload", &["incast_overload.toml:11:", "traffic.updates.load", "Gbit/s on the link to a receiver"]),
    ("long_jitter", &["long_jitter.toml:12:", "traffic.updates.jitter", "shorter than the period"]),
    ("measured_beyond_the_end", &["measured_beyond_the_end.toml:1:", "`measure_until`", "at most `duration`"]),
    ("long_target", &["long_target.toml:14:", "`transport.target`", "between 1ns and 1s"]),
    (
        "kernel_of_other_transport",
        &[
            "kernel_of_other_transport.toml:13:",
            "`traffic.web.kernel`",
            "dctcp has no settings of the operating system",
        ],
    ),
    ("kernel_unknown_congestion", &["unknown_congestion.toml:13:", "vegas"]),
    ("lane_without_dwrr", &["lane_without_dwrr.toml:", "`queues.queue.0`", "only queues under DWRR have lanes"]),
    ("messages_decide_size", &["messages_decide_size.toml:13:", "traffic.jobs.size", "messages.count decides"]),
    ("messages_too_large", &["messages_too_large.toml:17:", "`traffic.jobs.messages.size`", "at most 4294967295B"]),
    ("missing_size", &["missing_size.toml:10:", "`load`", "size"]),
    ("near_opt_rto", &["near_opt_rto.toml:12:", "`traffic.low.near_opt.initial_rto`", "longer than 0s"]),
    (
        "near_opt_sprayed",
        &["near_opt_sprayed.toml:12:", "`traffic.low.transport`", "near-opt needs routing = \"ecmp\""],
    ),
    ("near_opt_tcp", &["near_opt_tcp.toml:12:", "`traffic.low.tcp`", "near-opt has no settings of TCP"]),
    ("not_toml", &["not_toml.toml:8:"]),
    ("oracle_interval", &["oracle_interval.toml:9:", "`oracle.interval`", "between 10us and 1s"]),
    ("loss_probability", &["loss_probability.toml:1:", "`losses.0.probability`", "[0, 1)"]),
    ("loss_unknown_link", &["loss_unknown_link.toml:1:", "`losses.0.link`", "did you mean `switch 0 -> host 0`?"]),
    ("objects_empty", &["objects_empty.toml:11:", "traffic.images.size", "0 bytes"]),
    ("objects_endless", &["objects_endless.toml:12:", "traffic.images.period", "unless `objects` says how many"]),
    ("objects_fanout", &["objects_fanout.toml:14:", "`traffic.images.fanout`", "1 to 32"]),
    ("objects_few_holders", &["objects_few_holders.toml:8:", "`traffic.images.fanout`", "2 holders only"]),
    ("objects_not_shared", &["objects_not_shared.toml:14:", "`traffic.images.split`", "dctcp"]),
    ("objects_too_small", &["objects_too_small.toml:11:", "traffic.images.size", "split among 3 sources"]),
    ("objects_two_rates", &["objects_two_rates.toml:14:", "traffic.images.load", "only one of"]),
    (
        "objects_unknown_source",
        &["objects_unknown_source.toml:14:", "`traffic.images.holders`", "host 8 does not exist"],
    ),
    ("push_block", &["push_block.toml:14:", "`traffic.images.push.block`", "68493 symbols"]),
    (
        "push_high_weight",
        &["push_high_weight.toml:14:", "`traffic.images.push.high_weight`", "must lie in [1, 1000000000]"],
    ),
    ("push_messages", &["push_messages.toml:14:", "`traffic.images.messages`", "push moves objects"]),
    ("push_claims", &["push_claims.toml:14:", "`traffic.images.push.claims`", "a slot for each source"]),
    ("push_priority", &["push_priority.toml:14:", "`traffic.images.push.weights`", "contract.priority"]),
    ("priority_not_honoured", &["priority_not_honoured.toml:14:", "`traffic.images.contract.priority`", "push"]),
    ("outage_host", &["outage_host.toml:1:", "`outages.0.hosts`", "host 8 does not exist"]),
    ("outage_loss", &["outage_loss.toml:1:", "`outages.0.loss`", "above 0"]),
    ("outage_until", &["outage_until.toml:1:", "`outages.0.until`", "after `from`"]),
    ("push_slots", &["push_slots.toml:14:", "`traffic.images.push.slots`", "3 sources need a slot each"]),
    ("push_waiting", &["push_waiting.toml:14:", "`traffic.images.push.waiting`", "one at least sends"]),
    ("push_weight_floor", &["push_weight_floor.toml:14:", "`traffic.images.contract.weight`", "below 0.5"]),
    ("push_weight_of_both", &["push_weight_of_both.toml:15:", "`traffic.images.push.weights`", "contract.weight"]),
    ("sample_interval", &["sample_interval.toml:1:", "`sample_interval`", "10000000 samples are the most"]),
    ("windows_without_interval", &["windows_without_interval.toml:1:", "`sample_windows`", "sample_interval"]),
    ("oracle_in_one_queue", &["oracle_in_one_queue.toml:11:", "`queues.reserve`", "legacy_class"]),
    ("oracle_without_credits", &["oracle_without_credits.toml:10:", "`queues.reserve`", "there is none"]),
    ("overload", &["overload.toml:11:", "traffic.web.load", "12.000 Gbit/s"]),
    ("reserve_unknown", &["reserve_unknown.toml:10:", "`queues.reserve`", "above 0 and up to 1, or \"traffic\""]),
    ("reserve_of_other_plan", &["reserve_of_other_plan.toml:10:", "`queues.reserve`", "the plan strict"]),
    ("period_and_load", &["period_and_load.toml:11:", "traffic.updates.period", "not both"]),
    ("remainder_of_all", &["remainder_of_all.toml:15:", "traffic.large.of", "size_at_least or size_below"]),
    ("shares_of_sprayed_flows", &["shares_of_sprayed_flows.toml:1:", "`shares`", "ecmp"]),
    ("pausing_reflex", &["pausing_reflex.toml:17:", "`traffic.backup.cross_queue`", "table reflex"]),
    ("pausing_udp", &["pausing_udp.toml:17:", "`traffic.backup.cross_queue`", "udp does not pause"]),
    ("probe_class_without_queue", &["probe_class_without_queue.toml:17:", "cross_queue.probe_class`", "takes class 0"]),
    ("probe_queue_never_marks", &["probe_queue_never_marks.toml:16:", "\"regular\", which never marks"]),
    ("probe_queue_of_the_data", &["probe_queue_of_the_data.toml:16:", "\"flexible\", the queue of the data"]),
    ("reflex_alpha", &["reflex_alpha.toml:12:", "`traffic.web.contract.min_share`", "[0, 1]"]),
    ("reflex_low_class", &["reflex_low_class.toml:20:", "`traffic.web.reflex.low_class`", "takes class 1"]),
    (
        "reflex_one_queue",
        &[
            "reflex_one_queue.toml:16:",
            "`traffic.web.reflex.low_class`",
            "class 1 goes through \"shared\", the queue of",
        ],
    ),
    ("reflex_kernel", &["reflex_kernel.toml:13:", "`traffic.web.reflex`", "kernel"]),
    ("reflex_phase", &["reflex_phase.toml:12:", "`traffic.web.reflex.measure`", "at least 1 interval"]),
    ("reflex_size_unknown", &["reflex_size_unknown.toml:10:", "`traffic.web.contract.min_delivery`", "no end"]),
    ("reflex_udp", &["reflex_udp.toml:14:", "`traffic.web.reflex`", "udp"]),
    ("reflex_weight", &["reflex_weight.toml:13:", "`traffic.web.reflex.give_way`", "weighted-fair"]),
    (
        "min_rate_above_line",
        &["min_rate_above_line.toml:13:", "`traffic.web.contract.min_rate`", "fastest link, 10Gbit/s"],
    ),
    (
        "min_rate_not_honoured",
        &["min_rate_not_honoured.toml:13:", "`traffic.web.contract.min_rate`", "these do: bounded"],
    ),
    (
        "min_rate_without_effect",
        &["min_rate_without_effect.toml:13:", "`traffic.web.contract.min_rate`", "no effect while min_share is 1"],
    ),
    ("reflex_without_table", &["reflex_without_table.toml:12:", "`traffic.web.contract.min_share`", "web.reflex]"]),
    ("settings_of_other_transport", &["other_transport.toml:17:", "`traffic.jobs.tcp`", "atp has no settings of TCP"]),
    ("unknown_key", &["unknown_key.toml:11:", "`laod`", "did you mean `load`?"]),
    ("unknown_plan", &["unknown_plan.toml:9:", "`queues.plan`", "did you mean `strict`?"]),
    ("unreachable", &["unreachable.toml:3:", "two_islands.csv", "no path from host0 to host1"]),
    ("unsorted_trace", &["unsorted_trace.toml:10:", "unsorted.csv:3:", "before the line above"]),
    ("variant_unknown_key", &["variant_unknown_key.toml:22:", "`wieght`", "did you mean `weight`?"]),
    ("variant_unknown_plan", &["variant_unknown_plan.toml:22:", "`queues.plan`", "did you mean `strict`?"]),
    ("variant_unknown_table", &["variant_unknown_table.toml:22:", "`queue.plan`", "did you mean `queues`?"]),
    ("wrong_unit", &["wrong_unit.toml:10:", "`traffic.web.size`", "\"10Mb\""]),
    ("value_of_two_lines", &["value_of_two_lines.toml:10:", "`traffic.web.transport`", "`dc\\n\\u{1b}[2Jtcp`"]),
];

fn assert_refused(output: &std::process::Output, expected: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(output.stdout.is_empty(), "nothing on stdout");
    assert!(text.starts_with("error: ") && text.trim_end().lines().count() == 1, "one line: {text}");
    for part in expected {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

#[test]
fn broken_files_are_refused_by_line_and_key() {
    let folder = tempfile::tempdir().unwrap();
    for (name, expected) in BROKEN {
        let file = format!("{}/tests/broken/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let out = folder.path().join(name);
        for command in ["run", "check"] {
            let mut arguments = vec![command, &file];
            let out = out.to_str().unwrap();
            if command == "run" {
                arguments.extend(["--out", out]);
            }
            assert_refused(&pliant(&arguments), expected);
        }
        assert!(!out.exists(), "{name}: nothing is written");
    }
}

/// No broken file is forgotten above.
#[test]
fn every_broken_file_is_tested() {
    let folder = std::fs::read_dir(format!("{}/tests/broken", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let files =
        folder.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "toml"));
    assert_eq!(files.count(), BROKEN.len());
}

#[test]
fn broken_flags_are_refused_by_name() {
    for (arguments, expected) in [
        (&["run", "demo", "--set", "load"][..], "--set load: is not of the form KEY=VALUE"),
        (&["run", "demo", "--set", "load=0.5"], "`traffic.copies.load`, `traffic.search.load`"),
        (&["run", "demo", "--set", "topology.leaves=0"], "--set topology.leaves=0: `topology`"),
        (&["run", "demp"], "did you mean `demo`?"),
        (&["run", "missing/file.toml"], "missing/file.toml: "),
        (&["run", "demo", "--frobnicate"], "--frobnicate"),
        (&["compare", "demo", "--vary", "search.load=0.8:0.2:0.1"], "--vary search.load=0.8:0.2:0.1: begins above"),
        (&["sweep", "demo", "--vary", "seed=1,2", "--out", "x", "--shard", "3/2"], "--shard"),
        (
            &["sweep", "demo", "--vary", "search.load=0.5,1.5", "--out", "x"],
            "--vary search.load=1.5: `traffic.search.load`",
        ),
        (&["sweep", "demo", "--seeds", "1000000000", "--out", "x"], "1000000000 points"),
        (
            &["sweep", "demo", "--set", "duration=1000s", "--seeds", "200", "--jobs", "1", "--out", "x"],
            "hours of processor time",
        ),
        (
            &["run", "demo", "--seed", "-1"],
            "'-1' for '--seed <N>': it must be a whole number from 0 to 9223372036854775807",
        ),
        (&["compare", "demo", "--jobs", "100000"], "'--jobs <N>': it must be a whole number from 1 to 1024"),
        (
            &["sweep", "demo", "--seed", "9223372036854775806", "--seeds", "3", "--out", "x"],
            "--seeds 3: from seed 9223372036854775806 on there are fewer",
        ),
        (&["sweep", "demo", "--out", "x", "--seeds", "0"], "'--seeds <N>': it must be a whole number from 1"),
        (&["compare", "demo", "--until", "0%"], "it must be a percentage above 0 and below 100, such as 5%"),
        (&["compare", "demo", "--until", "5%", "--seeds", "3"], "cannot be used with"),
        (&["compare", "demo", "--seeds", "3", "--on", "testbed"], "--seeds is about the simulator"),
        (&["compare", "demo", "--vary", "seed=1,2", "--seeds", "3"], "--seeds: `seed=2` has a seed of its own"),
        (&["compare", "demo", "--relay"], "--relay is about a testbed"),
        (&["compare", "demo", "--mode", "speed"], "--mode is about a testbed"),
        (&["run", "demo", "--json", "--all-columns"], "'--json' cannot be used with '--all-columns'"),
        (&["reproduce", "--list", "--json"], "'--list' cannot be used with '--json'"),
        (&["reproduce", "--check", "--write-docs"], "'--check' cannot be used with '--write-docs [<PATH>]'"),
        (&["sweep", "demo"], "were not provided: --out <DIR>"),
        (&["list", "nothing"], "nothing"),
        (&["show", "dctpc"], "did you mean `dctcp`?"),
        (&["show", "dcctp"], "did you mean `dctcp`?"),
        (&["check", "demo", "--set", "search.transport=dcctp"], "unknown value `dcctp`, did you mean `dctcp`?"),
        (&["check", "demo", "--set", "search.workload=web_serch"], "did you mean `web_search`?"),
        (&["report", "missing"], "missing"),
        (&["reproduce", "reflex", "fig04", "--cache", "/dev/null"], "/dev/null is not a folder"),
        (&["recv", "missing/file", "--plain"], "missing/file: no such folder: missing"),
        (&["send", "file", "127.0.0.1:1", "--plain", "--transport", "near-opt"], "near-opt needs an oracle"),
    ] {
        assert_refused(&pliant(arguments), &[expected]);
    }
}

/// A transport with two names is listed by one of them, and taken by both: what is refused then is the file.
#[test]
fn a_short_name_is_taken_and_not_listed() {
    let send =
        |transport: &str| stderr(&pliant(&["send", "missing", "127.0.0.1:1", "--plain", "--transport", transport]));
    let listed = send("none");
    let names: Vec<&str> = listed.split([' ', ',', ']']).collect();
    assert!(names.contains(&"weighted-fair") && !names.contains(&"weighted"), "{listed}");
    for name in ["weighted", "weighted-fair"] {
        let told = send(name);
        assert!(told.starts_with("error: missing: "), "{told}");
    }
}

/// A value out of range is told the flag and the range: nothing is computed, sent or listened for.
#[test]
fn flags_out_of_range_are_told_the_range() {
    for (command, expected) in [
        ("fluid 1 0", "`0` is no weight: it must be a number above 0"),
        ("fluid 1 -1", "`-1` is no weight"),
        ("fluid 1 4@3s..2s", "'4@3s..2s'"),
        ("fluid 1 4 --rate 0bit/s", "'--rate <RATE>': it must be above 0"),
        ("fluid 1 4 --packet 0B", "'--packet <BYTES>': it must be above 0"),
        ("fluid 1 4 --propagation -1s", "'--propagation': it must not be negative"),
        ("fluid 1 4 --threshold -3", "'--threshold <PACKETS>': it must be a number from 0"),
        ("fluid 1 4 --threshold nan", "'--threshold <PACKETS>': it must be a number from 0"),
        ("fluid 1 4 --threshold 0 --propagation 0s", "--threshold 0: it must be above 0 where --propagation is 0s"),
        ("fluid 1 4 --limit 3", "--limit 3: it must be at least --threshold (30)"),
        ("fluid 1 4 --gain 2", "'--gain <GAIN>': it must be a number above 0 and up to 1"),
        ("fluid 1 4 --duration 0s", "'--duration <TIME>': it must be above 0"),
        ("fluid 1 4 --duration 10000000s", "--duration 10000000s: at most 146200.000 s"),
        ("fluid 1 4 --from 30s", "--from 30s: it must lie before --duration (20s)"),
        ("fluid 1 4 --from 1s --csv", "'--from <TIME>' cannot be used with '--csv'"),
        ("fluid 1 4 --csv --sample 0s", "'--sample <TIME>': it must be above 0"),
        ("fluid 1 4 --sample 1s", "--csv"),
        ("send file 127.0.0.1:1 --plain --weight 0", "'--weight <W>': it must be a number above 0"),
        ("send file 127.0.0.1:1 --plain --transport cubic --weight 2", "--weight: cubic does not honour it"),
        ("send file 127.0.0.1:1 --plain --hystart linux", "--hystart: dctcp does not have it"),
        ("send file 127.0.0.1:1 --plain --transport cubic --hystart on", "[possible values: linux, rfc9406, off]"),
        ("send file 127.0.0.1:1 --plain --transport cubic --target 5ms", "--target: cubic does not have it"),
        ("send file 127.0.0.1:1 --plain --transport ledbat --target 2s", "--target: "),
        ("send file 127.0.0.1:1 --plain --min-share 3", "'--min-share <FRACTION>': it must be a number from 0 to 1"),
        ("send file 127.0.0.1:1 --plain --transport cubic --min-rate 1Mbit/s", "--min-rate: cubic does not honour it"),
        (
            "send file 127.0.0.1:1 --plain --transport bounded --min-rate 0bit/s",
            "'--min-rate <RATE>': it must be above 0",
        ),
        (
            "send file 127.0.0.1:1 --plain --transport bounded --min-share 0 --min-rate 2Mbit/s --max-rate 1Mbit/s",
            "--min-rate is above --max-rate",
        ),
        (
            "send file 127.0.0.1:1 --plain --transport bounded --min-share 0 --min-rate 2Mbit/s --line-rate 1Mbit/s",
            "--min-rate is above --line-rate, 1Mbit/s",
        ),
        (
            "send file 127.0.0.1:1 --plain --transport bounded --min-share 0 --schedule 04:00-06:00=none+min-share=2",
            "min-share must be between 0 and 1",
        ),
        ("send file 127.0.0.1:1 --plain --done-by 2h", "--done-by: dctcp does not honour it, only --transport bounded"),
        (
            "send file 127.0.0.1:1 --plain --transport bounded --done-by 2h",
            "--done-by: it has no effect without --min-share below 1",
        ),
        (
            "send file 127.0.0.1:1 --plain --transport bounded --min-share 0 --done-by 2020-01-01T00:00:00Z",
            "--done-by: 2020-01-01T00:00:00Z has passed",
        ),
        ("send file 127.0.0.1:1 --plain --schedule 6:00-7:00=none", "6:00: a time of day is HH:MM"),
        ("send file 127.0.0.1:1 --plain --schedule 06:00=none", "it must be FROM-TO=RATE"),
        (
            "send file 127.0.0.1:1 --plain --schedule 22:00-06:00=none,05:00-07:00=1Mbit/s",
            "--schedule: 22:00-06:00 and 05:00-07:00 have a time in common",
        ),
        (
            "send file 127.0.0.1:1 --plain --schedule 06:00-07:00=0bit/s",
            "--schedule: max_rate of 06:00-07:00 must be above 0",
        ),
        ("send file 127.0.0.1:1 --plain --done-by 25:00", "'--done-by <WHEN>': it must be a time from now"),
        ("send file 127.0.0.1:1 --plain --done-by 0s", "'--done-by <WHEN>': it must be above 0"),
        (
            "send --bytes 4MB 127.0.0.1:1 --plain --transport bounded --min-share 0 --done-by 3s --max-rate 8Mbit/s",
            "bounded: done_by cannot be kept: at max_rate the flow takes longer",
        ),
        (
            "send - 127.0.0.1:1 --plain --transport bounded --min-share 0 --done-by 3s",
            "done_by needs a flow of known size",
        ),
        ("send file 127.0.0.1:1 --plain --transport atp --min-delivery 0", "--min-delivery: atp needs more than 0"),
        ("send file 127.0.0.1:1 --plain --mtu 10", "'--mtu <BYTES>': it must be a whole number from 576 to 65535"),
        ("send file 127.0.0.1:1 --plain --min-rto 0s", "'--min-rto <TIME>': it must be from 1us to 60s"),
        ("send file 127.0.0.1:1 --plain --idle-timeout 0s", "'--idle-timeout <TIME>': it must be above 0"),
        ("recv --plain --receive-buffer 1B", "'--receive-buffer <SIZE>': it must be from 64KiB to 1TiB"),
        ("recv --plain --class 32", "'--class <N>': it must be a whole number from 0 to 31"),
        ("offer file --plain --max-rate 0bit/s", "'--max-rate <RATE>': it must be above 0"),
        ("fetch 127.0.0.1:1 --plain --weight 0.4", "'--weight <W>': it must be a number from 0.5"),
        ("fetch 127.0.0.1:1 --plain --window 1kB", "'--window <SIZE>': it must be from 64KiB to 1TiB"),
        ("testbed record --runs 0", "'--runs <N>': it must be a whole number from 1 to 99"),
    ] {
        assert_refused(&pliant(&command.split(' ').collect::<Vec<_>>()), &[expected]);
    }
}

/// Where no output can be written, nothing runs first: these would take a day.
#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let below = file.join("results");
    let folder_of_others = folder.path().to_str().unwrap();
    let long = ["demo", "--set", "duration=100s"];
    for (command, more) in [("run", &[][..]), ("compare", &[]), ("sweep", &["--vary", "seed=1,2"])] {
        let arguments = [&[command], &long[..], more, &["--out", below.to_str().unwrap()]].concat();
        assert_refused(&pliant(&arguments), &["cannot create", below.to_str().unwrap()]);
    }
    let arguments = [&["run"], &long[..], &["--force", "--out", folder_of_others]].concat();
    assert_refused(&pliant(&arguments), &["is not an output folder"]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
}

/// Runs side by side that would not fit in memory are refused before more than one network was built: five thousand of
/// 65,536 hosts and more take hours, and the limit on processor time would end the command long before.
#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "only Linux tells how much memory is free")]
fn runs_that_do_not_fit_in_memory_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("large.toml");
    let text = "duration = \"1ms\"\n[topology]\nkind = \"fat-tree\"\nk = 64\n\
                link = { rate = \"10Gbit/s\", delay = \"1us\" }\n\
                [traffic.web]\nkind = \"poisson\"\nload = 0.01\nsize = \"100kB\"\n";
    std::fs::write(&scenario, text).unwrap();
    let out = folder.path().join("out");
    let small_first = "topology.k=4,8,80";
    for (command, more) in [
        ("sweep", &["--seeds", "5000", "--set", "duration=1000s"][..]),
        ("sweep", &["--vary", small_first, "--seeds", "5000"]),
        ("compare", &["--vary", "traffic.web.load=0.001:0.06:0.001", "--set", "duration=1000s"]),
    ] {
        let mut limited = limited("-t 60");
        limited.arg(command).arg(&scenario).args(["--jobs", "1024", "--out"]).arg(&out).args(more);
        assert_refused(&limited.output().unwrap(), &["runs at once would need about", "GB are free: choose fewer"]);
        assert!(!out.exists(), "nothing is written");
    }
}

/// A run that would need terabytes is refused before it begins.
#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "only Linux tells how much memory is free")]
fn a_run_that_does_not_fit_is_refused() {
    let output = limited("-t 60")
        .args(["run", "demo", "--set", "duration=1000000s", "--set", "sample_interval=1s"])
        .output()
        .unwrap();
    assert_refused(&output, &["a run would need about", "GB are free: choose a smaller scenario"]);
}

/// A device named by mistake is refused, wherever a file is asked for: it must not fill the memory.
#[test]
#[cfg(unix)]
fn files_that_never_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let endless_cables = folder.path().join("cables.toml");
    let text = "duration = \"1ms\"\n[topology]\nkind = \"edge-list\"\nfile = \"/dev/zero\"\n\
                [traffic.web]\nkind = \"poisson\"\nload = 0.01\nsize = \"100kB\"\n";
    std::fs::write(&endless_cables, text).unwrap();
    let endless_cables = endless_cables.to_str().unwrap();
    for (arguments, expected) in [
        (&["check", "/dev/zero"][..], "/dev/zero: larger than 64 MiB: not a file of this kind"),
        (&["check", "demo", "--set", "traffic.search.workload=/dev/zero"], "/dev/zero: larger than 64 MiB"),
        (&["check", endless_cables], "/dev/zero: cannot read the edge list: larger than 64 MiB"),
        (&["switch", "/dev/zero"], "/dev/zero: larger than 64 MiB"),
    ] {
        let output = limited("-t 60").args(arguments).output().unwrap();
        assert_refused(&output, &[expected]);
    }
}

/// A variant that is chosen stands for itself, and one that needs what is laid over the file is no mistake.
#[test]
fn only_what_is_meant_is_refused() {
    let file = format!("{}/tests/broken/variant_unknown_plan.toml", env!("CARGO_MANIFEST_DIR"));
    let output = pliant(&["check", &file, "--variant", "shared"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let folder = tempfile::tempdir().unwrap();
    let needs_load = folder.path().join("needs_load.toml");
    let text = std::fs::read_to_string(&file).unwrap().replace("load = 0.5\n", "").replace("load = 0.4", "seed = 2");
    std::fs::write(&needs_load, text.replace("strikt", "strict")).unwrap();
    let output = pliant(&["check", needs_load.to_str().unwrap(), "--set", "traffic.web.load=0.5"]);
    assert!(output.status.success(), "{}", stderr(&output));
}

/// Help, version and pages onto a full disk: one line, and no more than that. A reader that has gone is told nothing.
#[test]
fn a_full_disk_is_told_of_whatever_is_printed() {
    for words in ["--help", "--version", "send --help", "help switch", "list transports", "man", "doctor"] {
        let words: Vec<&str> = words.split(' ').collect();
        let run = |output: std::process::Stdio| {
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pliant"));
            command.args(&words).stdout(output).stderr(std::process::Stdio::piped()).output().unwrap()
        };
        let full = run(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap().into());
        assert_eq!(full.status.code(), Some(1), "{words:?}: {}", stderr(&full));
        assert_eq!(stderr(&full), "error: No space left on device (os error 28)\n", "{words:?}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let closed = run(writer.into());
        assert!(closed.status.success() && closed.stderr.is_empty(), "{words:?}: {}", stderr(&closed));
    }
}
