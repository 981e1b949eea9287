//! Plans in the words of switches: known answers, ranges, and there and back.

use pliant_proto::switch::QueuePlan;
use pliant_proto::switch::plan::SchedulerConfig;
use pliant_proto::units::Rate;
use proptest::prelude::*;
use serde_json::Value;

use super::{Exported, Form, Port, export, from_sonic};
use crate::scenario::{PRESETS, QueuesSpec};

fn plan(name: &str) -> QueuePlan {
    QueuesSpec::named(name).unwrap().plan().unwrap()
}

fn exported(plan: &QueuePlan, form: Form) -> Exported {
    let names = ["Ethernet0".to_owned(), "Ethernet4".to_owned()];
    let port = Port { plan, rate: Rate::from_gbit_per_sec(10), packet_bytes: 1500, names: &names, kind: "" };
    export(&port, form).unwrap()
}

fn sonic(name: &str) -> (Value, Vec<String>) {
    let Exported { text, not_expressed } = exported(&plan(name), Form::Sonic);
    (serde_json::from_str(&text).unwrap(), not_expressed)
}

/// REFLEX's queues: 9:1, marking at 65 packets of 1500 bytes, 466 packets each; class 0 is DSCP 0 and 1.
#[test]
fn weighted_queues_for_sonic() {
    let (tables, not_expressed) = sonic("dwrr-9-1");
    assert_eq!(tables["SCHEDULER"]["pliant.regular"], serde_json::json!({ "type": "DWRR", "weight": "9" }));
    assert_eq!(tables["SCHEDULER"]["pliant.flexible"]["weight"], "1");
    let profile = &tables["WRED_PROFILE"]["pliant.regular"];
    assert_eq!((&profile["ecn"], &profile["wred_green_enable"]), (&"ecn_all".into(), &"true".into()));
    assert_eq!((&profile["green_min_threshold"], &profile["green_max_threshold"]), (&"97500".into(), &"97500".into()));
    assert_eq!(tables["QUEUE"]["Ethernet4|1"]["scheduler"], "pliant.regular");
    assert_eq!(
        (&tables["DSCP_TO_TC_MAP"]["PLIANT"]["1"], &tables["DSCP_TO_TC_MAP"]["PLIANT"]["2"]),
        (&"1".into(), &"0".into())
    );
    assert_eq!(tables["BUFFER_PROFILE"]["pliant.regular"]["static_th"], (466 * 1500).to_string());
    assert_eq!(tables["PORT_QOS_MAP"]["Ethernet0"]["tc_to_queue_map"], "PLIANT");
    assert_eq!(not_expressed, Vec::<String>::new());
}

/// FlexPass: credits are strict, in the highest queue, and limited; its colours have no form.
#[test]
fn credits_for_sonic() {
    let (tables, not_expressed) = sonic("flexpass");
    let credits = &tables["SCHEDULER"]["pliant.credit"];
    assert_eq!((&credits["type"], &credits["meter_type"]), (&"STRICT".into(), &"bytes".into()));
    assert_eq!(credits["pir"], credits["cir"]);
    assert!(credits["pir"].as_str().unwrap().parse::<u64>().unwrap() < 10_000_000_000 / 8 / 20);
    assert_eq!(tables["QUEUE"]["Ethernet0|2"]["scheduler"], "pliant.credit");
    assert_eq!(tables["DSCP_TO_TC_MAP"]["PLIANT"]["62"], "2");
    assert_eq!(tables["BUFFER_POOL"]["pliant_egress_pool"]["mode"], "dynamic");
    assert_eq!(tables["BUFFER_PROFILE"]["pliant.legacy"]["dynamic_th"], "-2");
    assert!(not_expressed.iter().any(|sentence| sentence.contains("red packets")), "{not_expressed:?}");
}

/// Every named plan in every form that has room for it; what it says of itself keeps to SONiC's ranges.
#[test]
fn every_plan_in_every_form() {
    for (name, _) in PRESETS {
        let plan = plan(&name.replace("W-W", "9-1"));
        for form in [Form::Sonic, Form::Tc, Form::Htb, Form::Json] {
            let Exported { text, not_expressed } = exported(&plan, form);
            assert!(text.ends_with('\n') && text.len() > 100, "{name} {form:?}");
            for sentence in &not_expressed {
                assert!(!sentence.contains('\n') && sentence.contains(':'), "{sentence}");
                let comment = format!("# Not expressed: {sentence}");
                assert!(!matches!(form, Form::Tc | Form::Htb) || text.contains(&comment), "{name}: {sentence}");
            }
            if form == Form::Sonic {
                hold_to_ranges(&serde_json::from_str(&text).unwrap());
            }
        }
    }
}

/// The ranges of SONiC's models, and that what is referred to is there.
fn hold_to_ranges(tables: &Value) {
    let number = |value: &Value| value.as_str().unwrap().parse::<i64>().unwrap();
    let entries = |table: &str| tables[table].as_object().into_iter().flatten();
    for (name, scheduler) in entries("SCHEDULER") {
        match scheduler["type"].as_str().unwrap() {
            "DWRR" => assert!((1..=100).contains(&number(&scheduler["weight"])), "{name}"),
            kind => assert_eq!(kind, "STRICT"),
        }
        if scheduler.get("pir").is_some() {
            assert!(number(&scheduler["pir"]) >= number(&scheduler["cir"]), "{name}");
            assert!(number(&scheduler["pbs"]) >= number(&scheduler["cbs"]), "{name}");
        }
    }
    for (name, profile) in entries("WRED_PROFILE") {
        for colour in ["green", "yellow", "red"] {
            let of = |key: &str| number(&profile[format!("{colour}_{key}")]);
            assert!(of("max_threshold") >= of("min_threshold"), "{name}");
            assert!((1..=100).contains(&of("drop_probability")), "{name}");
        }
    }
    for (name, profile) in entries("BUFFER_PROFILE") {
        assert!(profile.get("dynamic_th").is_none_or(|exponent| (-8..=7).contains(&number(exponent))), "{name}");
    }
    for (key, queue) in entries("QUEUE") {
        assert!((0..8).contains(&key.rsplit_once('|').unwrap().1.parse::<i64>().unwrap()), "{key}");
        assert!(tables["SCHEDULER"].get(queue["scheduler"].as_str().unwrap()).is_some(), "{key}");
        let profile = queue.get("wred_profile").map(|name| name.as_str().unwrap());
        assert!(profile.is_none_or(|name| tables["WRED_PROFILE"].get(name).is_some()), "{key}");
    }
}

#[test]
fn what_has_no_room_is_refused() {
    let plan = plan("dwrr-1-1-1-1-1-1-1-1-1");
    let names = ["eth0".to_owned()];
    let port = Port { plan: &plan, rate: Rate::from_gbit_per_sec(1), packet_bytes: 1500, names: &names, kind: "" };
    assert_eq!(export(&port, Form::Sonic).unwrap_err(), "the plan has 9 queues, and a SONiC port has 8");
    assert!(export(&port, Form::Tc).is_ok() && export(&port, Form::Htb).is_ok());
}

/// Weights that do not fit are rounded, and that is said.
#[test]
fn weights_are_scaled() {
    let (tables, not_expressed) = sonic("dwrr-999-1");
    assert_eq!(tables["SCHEDULER"]["pliant.regular"]["weight"], "100");
    assert!(not_expressed[0].starts_with("weights above 100: rounded"), "{not_expressed:?}");
    assert_eq!(sonic("dwrr-200-100").0["SCHEDULER"]["pliant.regular"]["weight"], "2");
}

/// What SONiC can say comes back as it was.
#[test]
fn there_and_back() {
    for name in ["strict", "dwrr-9-1", "dwrr-4-2-1", "strict-8", "shared"] {
        let given = plan(name);
        let Exported { text, not_expressed } = exported(&given, Form::Sonic);
        assert_eq!(not_expressed, Vec::<String>::new(), "{name}");
        let (spec, assumed) = from_sonic(&text, "Ethernet4", 1500).unwrap();
        assert_eq!(assumed, Vec::<String>::new(), "{name}");
        let back = spec.plan().unwrap();
        assert_eq!(back.queue_of_class, given.queue_of_class, "{name}");
        assert_eq!(back.scheduler.strict_queues(9), given.scheduler.strict_queues(9), "{name}");
        let names = ["Ethernet0".to_owned()];
        let port = |plan| Port { plan, rate: Rate::from_gbit_per_sec(10), packet_bytes: 1500, names: &names, kind: "" };
        for (back_queue, given_queue) in back.queues.iter().zip(&given.queues) {
            assert_eq!(port(&back).limit_bytes(back_queue), port(&given).limit_bytes(given_queue), "{name}");
            assert_eq!(back_queue.weight, given_queue.weight, "{name}");
            assert_ne!(back_queue.marker, pliant_proto::switch::marker::MarkerConfig::None, "{name}");
        }
    }
}

/// A file as switches have it: ranges of queues, lists of ports, references in brackets, other tables beside.
#[test]
fn a_switch_s_own_file() {
    let file = r#"{
        "DEVICE_METADATA": { "localhost": { "hwsku": "x" } }, "VERSIONS": "no table",
        "DSCP_TO_TC_MAP": { "AZURE": { "0": "0", "1": "0", "46": "5", "47": "5", "10": "3", "11": "0" } },
        "TC_TO_QUEUE_MAP": { "AZURE": { "0": "0", "3": "3", "5": "5" } },
        "PORT_QOS_MAP": { "global": { "dscp_to_tc_map": "[DSCP_TO_TC_MAP|AZURE]", "tc_to_queue_map": "AZURE" } },
        "SCHEDULER": { "s.0": { "type": "DWRR", "weight": "14" }, "s.5": { "type": "STRICT" } },
        "WRED_PROFILE": { "w": { "ecn": "ecn_all", "wred_green_enable": "true", "green_min_threshold": "15000",
            "green_max_threshold": "150000", "green_drop_probability": "5" } },
        "QUEUE": { "Ethernet0,Ethernet4|0-3": { "scheduler": "[SCHEDULER|s.0]", "wred_profile": "w" },
            "Ethernet4|5": { "scheduler": "s.5" } },
        "BUFFER_POOL": { "pool": { "type": "egress", "mode": "dynamic", "size": "12000000" } },
        "BUFFER_PROFILE": { "p": { "pool": "[BUFFER_POOL|pool]", "size": "1518", "dynamic_th": "1" } },
        "BUFFER_QUEUE": { "Ethernet0,Ethernet4|0-3": { "profile": "p" } }
    }"#;
    let (spec, assumed) = from_sonic(file, "Ethernet4", 1500).unwrap();
    let plan = spec.plan().unwrap();
    let names: Vec<&str> = plan.queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["queue 5", "queue 3", "queue 0"], "strict first; no DSCP leads to 1 and 2");
    assert_eq!((plan.queue_of_class[23], plan.queue_of_class[5], plan.queue_of_class[0]), (0, 1, 2));
    assert_eq!(
        (plan.shared_buffer.unwrap().0, plan.queues[1].buffer_alpha, plan.queues[1].reserved_bytes),
        (12_000_000, 2.0, 1518)
    );
    for said in ["queue 1: no DSCP", "class 5: DSCP 10 goes to queue 3", "queue 5: no limit is given", "0.002"] {
        assert!(assumed.iter().any(|sentence| sentence.contains(said)), "{said}: {assumed:?}");
    }
    let by_packets = from_sonic(&file.replace("DWRR", "WRR"), "Ethernet4", 1500).unwrap().0.plan().unwrap();
    assert_eq!(by_packets.scheduler, SchedulerConfig::Wrr { strict: 1 });
    for (text, error) in [
        (file.replace("\"s.5\" }", "\"s.9\" }"), "SCHEDULER|s.9: there is no such entry"),
        (file.replace("STRICT", "FAIR"), "SCHEDULER|s.5: type FAIR: DWRR, WRR or STRICT"),
        (file.replace("\"weight\": \"14\"", "\"weight\": \"x\""), "SCHEDULER|s.0: weight x: a whole number"),
        (file.replace("\"14\"", "\"4294967297\""), "SCHEDULER|s.0: weight: larger than any switch takes"),
        (file.replace("\"15000\"", "\"250000\""), "green_min_threshold 250000 is above"),
        (file.replace("|5\"", "|x\""), "QUEUE|Ethernet4|x: a queue is a number"),
        (file.replace("\"dynamic_th\": \"1\"", "\"dynamic_th\": \"9\""), "from -8 to 7"),
        (format!("{file}x"), "trailing characters at line"),
    ] {
        let said = from_sonic(&text, "Ethernet4", 1500).unwrap_err().to_string();
        assert!(said.contains(error), "{said}");
    }
    let said = from_sonic(file, "Ethernet8", 1500).unwrap_err().to_string();
    assert_eq!(said, "QUEUE: nothing about Ethernet8; ports: Ethernet0, Ethernet4");
}

proptest! {
    /// Whatever the file is, it is a plan or an error.
    #[test]
    fn any_file_is_a_plan_or_an_error(
        table in prop::sample::select(vec!["QUEUE", "SCHEDULER", "WRED_PROFILE", "PORT_QOS_MAP", "BUFFER_PROFILE"]),
        key in "[A-Za-z0-9|,\\-\\[\\]]{0,12}", inner in "[a-z_]{0,12}", value in "[0-9A-Z|\\[\\]-]{0,8}",
    ) {
        let file = serde_json::json!({
            "DSCP_TO_TC_MAP": { "M": { "0": "1" } },
            "PORT_QOS_MAP": { "E": { "dscp_to_tc_map": "M" } },
            "QUEUE": { "E|0-1": {} },
            table: { key: { inner: value } },
        });
        let _ = from_sonic(&file.to_string(), "E", 1500);
    }
}
