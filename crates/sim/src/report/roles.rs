//! Which traffic group of a comparison may give way, and which one is to gain by it.

use crate::results::comparison::ComparisonRow;

/// Names of the group that gives and of the one that gains; `None` of a single group or variant.
///
/// The flexible group is one whose contract says so in some variant, else that of the largest class; the other is, of the
/// rest, the one with the most flows.
pub(super) fn roles(rows: &[ComparisonRow]) -> Option<(&str, &str)> {
    let groups: Vec<&[ComparisonRow]> = rows.chunk_by(|a, b| a.group.name == b.group.name).collect();
    if groups.len() < 2 || groups.iter().all(|group| group.len() < 2) {
        return None;
    }
    let flexibility = |group: &[ComparisonRow]| {
        let promises = group.iter().any(|row| row.group.contract != "none");
        (promises, group.iter().filter_map(|row| class_of(&row.group.class)).max())
    };
    let (flexible, gives) = groups.iter().enumerate().max_by_key(|(_, group)| flexibility(group))?;
    let flows = |group: &[ComparisonRow]| group.iter().map(|row| row.group.all.flows).max();
    let others = groups.iter().enumerate().filter(|&(number, _)| number != flexible);
    let (_, gains) = others.rev().max_by_key(|(_, group)| flows(group))?;
    Some((&gives[0].group.name, &gains[0].group.name))
}

/// The number of a class as results tell it, `1 (low)`.
fn class_of(text: &str) -> Option<u8> {
    text.split(' ').next()?.parse().ok()
}
