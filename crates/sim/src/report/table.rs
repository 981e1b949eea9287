//! The table of groups and variants as plain text.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::measures::{Format, Measure, measures, print};
use super::shown::Shown;
use crate::results::comparison::{ComparisonRow, Variant, compare};
use crate::results::repetition::Repeated;

/// Most characters of the name of a group, and of a variant's label, in a line; longer ones go over several.
const WIDEST_LABEL: [usize; 2] = [20, 32];

const TAKES_ALL: &str = "a string takes all";

/// A table, and the columns that it lacks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextTable {
    /// The table, aligned for a terminal, every line with its end.
    pub text: String,
    /// Columns left out because all they hold is 0.
    pub all_zero: Vec<&'static str>,
    /// Columns for which there was no room.
    pub no_room: Vec<&'static str>,
}

/// The table of every traffic group in every variant, in lines of at most `width` characters as far as labels let it, or
/// with all columns. One run is one variant; its label is not shown.
pub fn text_table(variants: &[Variant<'_>], width: Option<usize>) -> TextTable {
    table(&Shown::Once(compare(variants)), variants.len(), width)
}

/// The same of means over several seeds, with each variant's changes against the first.
pub fn repeated_text_table(repeated: &Repeated, width: Option<usize>) -> TextTable {
    let last = repeated.rows().iter().map(|row| row.variant_index).max();
    table(&Shown::Repeated(repeated), last.map_or(0, |last| last + 1), width)
}

fn table(shown: &Shown<'_>, variants: usize, width: Option<usize>) -> TextTable {
    let rows = shown.rows();
    let columns: Vec<Column> = measures(rows, variants).into_iter().map(|measure| Column::of(measure, shown)).collect();
    let labels = labels(rows, variants > 1);
    let label_widths = [0, 1].map(|part| labels.iter().map(|lines| widest(&lines[part])).max().unwrap_or(0));
    let (shown, all_zero, no_room) = choose(columns, label_widths.iter().sum::<usize>() + 2, width);

    let mut text = String::new();
    for (number, label) in labels.iter().enumerate() {
        let height = label.iter().map(Vec::len).max().unwrap_or(0);
        for at in 0..height {
            let mut line = String::new();
            for (part, width) in label.iter().zip(label_widths) {
                let part = part.get(at).map_or("", String::as_str);
                write!(line, "{part:width$}  ").expect(TAKES_ALL);
            }
            for column in &shown {
                write!(line, "{:>1$}  ", column.cell(number, at), column.width).expect(TAKES_ALL);
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    if text.contains('≥') {
        text.push_str("≥: flows still under way at the end make it a lower bound\n");
    }
    if text.contains('≈') {
        text.push_str("≈: no difference seen from the first variant, the 95 % interval holds zero\n");
    }
    TextTable { text, all_zero, no_room }
}

/// One measure of all rows, printed.
struct Column {
    measure: &'static Measure,
    /// Two lines.
    heading: [&'static str; 2],
    cells: Vec<String>,
    width: usize,
    is_all_zero: bool,
}

impl Column {
    fn of(measure: &'static Measure, shown: &Shown<'_>) -> Self {
        let rows = shown.rows();
        let value = |row: usize| print(shown.value(measure, row), measure.format);
        // A slowdown changes as its completion time does: its column is for others that find room then.
        let change = |row: usize| shown.change_text(measure, row).filter(|_| measure.format != Format::Number);
        // Values stand below each other, whatever stands behind them.
        let widest = (0..rows.len()).filter_map(change).map(|text| length(&text)).max();
        let cell = |row: usize| match widest {
            Some(widest) => format!("{} {:>widest$}", value(row), change(row).unwrap_or_default()),
            None => value(row),
        };
        let cells: Vec<String> = (0..rows.len()).map(cell).collect();
        let (first, second) = measure.title.rsplit_once(' ').unwrap_or((measure.title, measure.unit));
        let heading = [first, second];
        let width = heading.into_iter().chain(cells.iter().map(String::as_str)).map(length).max().unwrap_or(0);
        let is_all_zero = measure.is_all_zero(rows);
        Self { measure, heading, cells, width, is_all_zero }
    }

    /// Line `at` of row `number`, of which the first is the heading.
    fn cell(&self, number: usize, at: usize) -> &str {
        match number.checked_sub(1) {
            None => self.heading.get(at).copied().unwrap_or_default(),
            Some(row) if at == 0 => &self.cells[row],
            Some(_) => "",
        }
    }
}

/// The columns that find room beside labels of `labels` characters, in their order; then those that are left out.
fn choose(
    columns: Vec<Column>,
    labels: usize,
    width: Option<usize>,
) -> (Vec<Column>, Vec<&'static str>, Vec<&'static str>) {
    let Some(width) = width else { return (columns, Vec::new(), Vec::new()) };
    let mut by_rank: Vec<&Column> = columns.iter().filter(|column| !column.is_all_zero).collect();
    by_rank.sort_unstable_by_key(|column| column.measure.rank);
    let (mut used, mut fitting) = (labels, BTreeSet::new());
    for column in by_rank {
        if used + 2 + column.width <= width {
            used += 2 + column.width;
            fitting.insert(column.measure.rank);
        }
    }
    let (shown, left_out): (Vec<_>, Vec<_>) =
        columns.into_iter().partition(|column| fitting.contains(&column.measure.rank));
    let (all_zero, no_room): (Vec<_>, Vec<_>) = left_out.into_iter().partition(|column| column.is_all_zero);
    let titles = |columns: Vec<Column>| columns.iter().map(|column| column.measure.title).collect();
    (shown, titles(all_zero), titles(no_room))
}

/// Heading and names of every row, each in lines. A group's name is told once.
fn labels(rows: &[ComparisonRow], compared: bool) -> Vec<[Vec<String>; 2]> {
    let second = if compared { "variant" } else { "transport" };
    let mut labels = vec![["group", second].map(|name| vec![name.to_owned(), String::new()])];
    for (number, row) in rows.iter().enumerate() {
        let is_told = number > 0 && rows[number - 1].group.name == row.group.name;
        let name = if is_told { "" } else { &row.group.name };
        let variant = if compared { &row.variant } else { &row.group.transport };
        labels.push([wrapped(name, WIDEST_LABEL[0]), wrapped(variant, WIDEST_LABEL[1])]);
    }
    labels
}

/// `text` in lines of at most `width` characters, without control characters, which could rewrite a terminal. Lines end
/// behind a space where there is one, or else behind a dot or an equals sign.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let printable: Vec<char> = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let mut rest = &printable[..];
    let mut lines = Vec::new();
    while rest.len() > width {
        let behind = |marks: &[char]| rest[..width].iter().rposition(|c| marks.contains(c)).map(|at| at + 1);
        let end = behind(&[' ']).or_else(|| behind(&['.', '='])).unwrap_or(width);
        let (line, after) = rest.split_at(end);
        lines.push(line.iter().collect::<String>().trim_end().to_owned());
        rest = after;
    }
    lines.push(rest.iter().collect());
    lines
}

fn widest(lines: &[String]) -> usize {
    lines.iter().map(|line| length(line)).max().unwrap_or(0)
}

fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::samples;

    #[test]
    fn columns_align_whatever_they_hold() {
        let result = samples::run();
        let variants =
            [Variant { label: "all dctcp", result: &result }, Variant { label: "µ\u{1b}[2J", result: &result }];
        let text = text_table(&variants, None).text;
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2 + 4 + usize::from(text.contains('≥')));
        assert!(lines[0].starts_with("group") && lines[0].contains("share"));
        assert!(lines[2].starts_with("search") && lines[3].starts_with("  "), "a group's name is told once");
        assert!(!text.contains('\u{1b}'), "no escape sequence reaches the terminal");
        let ends: Vec<_> = [1, 2, 3, 4, 5].map(|line: usize| lines[line].chars().count()).to_vec();
        assert!(ends.iter().all(|&end| end == ends[0]), "{text}");
    }

    #[test]
    fn one_run_shows_transports_and_no_share_kept() {
        let table = text_table(&[Variant { label: "x", result: &samples::run() }], None);
        let text = table.text;
        assert!(text.contains("transport") && text.contains("reflex") && !text.contains("kept"), "{text}");
        assert_eq!((table.all_zero, table.no_room), (vec![], vec![]));
    }

    /// Whatever the labels, lines keep to the width, no column is lost without being named, and what matters most is there.
    #[test]
    fn a_narrow_table_names_what_it_leaves_out() {
        let result = samples::run();
        let long = "traffic.backup.contract.min_share=0.2 queues.plan=dwrr-9-1";
        for label in ["a", long, &"x".repeat(70)] {
            let variants = [Variant { label, result: &result }, Variant { label: "b", result: &result }];
            let table = text_table(&variants, Some(100));
            assert!(table.text.lines().all(|line| line.chars().count() <= 100), "{}", table.text);
            let shown = measures(&compare(&variants), 2).len() - table.all_zero.len() - table.no_room.len();
            assert!(shown >= 5 && !table.no_room.contains(&"FCT p99"), "{}", table.text);
        }
    }

    /// Whether a promised share was kept is among what matters, and not told of what promises nothing.
    #[test]
    fn a_promise_is_held_against_what_came_of_it() {
        let mut result = samples::run();
        for flow in &mut result.flows {
            flow.fair_share = crate::results::Share::new(Some(if flow.id % 40 < 10 { 0.25 } else { 0.5 }));
        }
        let variants = [Variant { label: "a", result: &result }, Variant { label: "b", result: &result }];
        let rows = compare(&variants);
        let promised: Vec<String> = measures(&rows, 2)
            .iter()
            .filter(|measure| ["below promise", "least share"].contains(&measure.title))
            .flat_map(|measure| rows.iter().map(|row| print(measure.value(row), measure.format)))
            .collect();
        assert_eq!(promised, ["–", "–", "25.0 %", "25.0 %", "–", "–", "25.0 %", "25.0 %"]);
        let text = text_table(&variants, Some(100)).text;
        assert!(text.lines().nth(1).unwrap().contains("promise"), "{text}");
        result.groups[1].min_share = 1.0;
        assert!(!text_table(&[Variant { label: "", result: &result }], None).text.contains("promise"));
    }

    /// Of what moves objects, their times come first.
    #[test]
    fn objects_have_columns_of_their_own() {
        let mut result = samples::run();
        let plain = text_table(&[Variant { label: "", result: &result }], Some(100)).text;
        result.flows.iter_mut().for_each(|flow| flow.object = Some(flow.id / 3));
        let text = text_table(&[Variant { label: "", result: &result }], Some(100)).text;
        assert!(!plain.contains("object") && text.lines().next().unwrap().matches("object").count() >= 2, "{text}");
    }

    #[test]
    fn long_labels_break_between_words() {
        assert_eq!(wrapped("min_share=0.2 queues.plan=dwrr-9-1", 20), ["min_share=0.2", "queues.plan=dwrr-9-1"]);
        assert_eq!(wrapped("updates.size=50kB queues.plan=shared", 32), ["updates.size=50kB", "queues.plan=shared"]);
        assert_eq!(wrapped("traffic.backup.contract.min_share=0.2", 32), ["traffic.backup.contract.", "min_share=0.2"]);
        assert_eq!(wrapped("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrapped("", 3), [""]);
    }
}
