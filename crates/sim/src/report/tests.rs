use super::*;
use crate::results::samples;

/// Text that would run if it reached the page as markup.
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\"'&";

/// A resolved scenario as far as the report reads it.
const SCENARIO: &str = "description = \"Search beside <b>training</b>\"\nduration = \"20ms\"\n";

#[test]
fn no_text_of_the_user_becomes_markup() {
    let mut run = samples::run();
    run.scenario = HOSTILE.into();
    run.version = HOSTILE.into();
    for group in &mut run.groups {
        group.name.push_str(HOSTILE);
        group.transport = HOSTILE.into();
        group.class = HOSTILE.into();
        group.contract = HOSTILE.into();
    }
    for port in &mut run.ports {
        port.name = HOSTILE.into();
        port.queue_name = HOSTILE.into();
    }
    run.interrupted = true;
    let variants = [Variant { label: HOSTILE, result: &run }, Variant { label: "b", result: &run }];
    let scenario = format!("description = \"\"\"{HOSTILE}\"\"\"");
    for page in [render(&run, &scenario), render_comparison(HOSTILE, &variants, None, None, &scenario)] {
        let page = page.replace(page::PLOTLY, "");
        assert!(!page.contains("<img"), "markup got through");
        assert_eq!(page.matches("</script>").count(), 3, "as many as the page has scripts");
        assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"));
        assert!(page.contains("<p class=\"description\">&lt;/script&gt;"), "the description is read and made harmless");
    }
}

#[test]
fn a_report_needs_no_network_and_carries_plotly_once() {
    let page = render(&samples::run(), SCENARIO);
    assert_eq!(page.matches(page::PLOTLY).count(), 1);
    let own = page.replace(page::PLOTLY, "");
    for reference in ["http://", "https://", "src=", "href=", "@import", "url("] {
        assert!(!own.contains(reference), "{reference}");
    }
    assert!(!page::PLOTLY.contains("</script"), "the library may stand inside a script element");
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
}

#[test]
fn a_report_tells_what_identifies_the_run() {
    let mut run = samples::run();
    let page = render(&run, SCENARIO);
    for fact in ["leaf-spine &lt;mix&gt;", "00c0ffee12345678", "0.1.0", "search", "min_share 0.3"] {
        assert!(page.contains(fact), "{fact}");
    }
    assert!(page.contains("Search beside &lt;b&gt;training") && page.contains("duration = &quot;20ms&quot;"));
    assert!(!page.contains("was interrupted"));
    run.interrupted = true;
    assert!(render(&run, SCENARIO).contains("This run was interrupted"));
    run.overloaded = Some("3 frames < 4".into());
    assert!(render(&run, SCENARIO).contains("This run overloaded its testbed and is no result: 3 frames &lt; 4."));
}

/// All flows of the second group are of one size: it has no plots by size. Columns of counts that are zero everywhere are
/// named below the table.
#[test]
fn what_says_nothing_makes_way() {
    let mut run = samples::run();
    let has_column = |run: &RunResult| render(run, SCENARIO).contains("<th scope=\"col\">timeouts");
    run.flows.iter_mut().for_each(|flow| flow.timeouts = 1);
    assert!(has_column(&run));
    run.flows.iter_mut().for_each(|flow| flow.timeouts = 0);
    let page = render(&run, SCENARIO);
    assert!(
        !has_column(&run)
            && page.split("0 everywhere: ").nth(1).unwrap().split('.').next().unwrap().contains("timeouts")
    );
    run.flows.retain(|flow| flow.group == 1);
    assert!(!render(&run, SCENARIO).contains("<h3>Slowdown by flow size"));
}

#[test]
fn every_plot_has_data_and_a_place() {
    let run = samples::run();
    let variants = [Variant { label: "a", result: &run }, Variant { label: "b", result: &run }];
    for (page, plots) in
        [(render(&run, SCENARIO), 5), (render_comparison("ab", &variants, None, None, SCENARIO), 1 + 4 + 2 + 4)]
    {
        assert_eq!(page.matches("<div class=\"plot\"").count(), plots);
        assert_eq!(
            page.matches(" role=\"img\" tabindex=\"0\" aria-label=\"").count(),
            plots,
            "each in words, each in reach"
        );
        assert_eq!(page.matches("data-take=\"csv\"").count(), plots);
        let start = page.find("id=\"figures\">").unwrap() + "id=\"figures\">".len();
        let json = &page[start..start + page[start..].find("</script>").unwrap()];
        let figures: Vec<serde_json::Value> = serde_json::from_str(json).unwrap();
        assert_eq!(figures.len(), plots);
        for figure in figures {
            let traces = figure["data"].as_array().unwrap();
            assert!(!traces.is_empty());
            for trace in traces {
                assert_eq!(trace["x"].as_array().unwrap().len(), trace["y"].as_array().unwrap().len());
            }
        }
    }
}

#[test]
fn a_run_without_flows_or_samples_has_a_report() {
    let mut run = samples::run();
    run.flows.clear();
    run.ports.clear();
    run.queue_samples.clear();
    run.throughput_samples.clear();
    assert!(render(&run, SCENARIO).contains("search"));
    assert!(render_comparison("nothing", &[], None, None, "").contains("nothing"));
}

#[test]
fn a_comparison_marks_changes_against_the_first_variant() {
    let (calm, busy) = (samples::run_with(400, 0.5), samples::run_with(400, 2.0));
    let variants = [Variant { label: "calm", result: &calm }, Variant { label: "busy", result: &busy }];
    let page = render_comparison("load", &variants, None, None, SCENARIO);
    assert!(page.contains("<small>+") && page.contains("share kept"), "one run says nothing about chance");
    assert!(!page.contains("class=\"worse\"") && !page.contains("class=\"better\""));
    let json: serde_json::Value = serde_json::from_str(&comparison_json("load", &variants, None, None)).unwrap();
    assert_eq!(json["variants"], serde_json::json!(["calm", "busy"]));
    assert_eq!(json["rows"].as_array().unwrap().len(), 4);
    assert!(json["rows"][1]["all"]["fct_us"]["p99"]["value"].as_f64().unwrap() > 0.0);
    assert_eq!(json["rows"][0]["share_kept"], 1.0);
}
