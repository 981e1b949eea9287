//! Selection of a folder's files.

use std::path::Path;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

/// Selects the files of a folder that match a pattern to include, or all, without those that match a pattern to
/// exclude.
///
/// A pattern describes a path in the folder, such as `*.bin` or `a/**/b?.txt`; `*` does not match slashes. A pattern
/// without a slash matches the name in any folder. A pattern that matches a folder matches everything in it.
#[derive(Clone, Debug, Default)]
pub struct FolderFilter {
    include: Option<GlobSet>,
    exclude: Option<GlobSet>,
}

impl FolderFilter {
    /// From these patterns. The error names an invalid one.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, String> {
        Ok(Self { include: set_of(include)?, exclude: set_of(exclude)? })
    }

    /// Whether it selects a file, by its path in the folder.
    pub(super) fn takes(&self, path: &Path) -> bool {
        self.include.as_ref().is_none_or(|set| has_match(set, path)) && !self.leaves_out(path)
    }

    /// Whether it excludes this and everything in it.
    pub(super) fn leaves_out(&self, path: &Path) -> bool {
        self.exclude.as_ref().is_some_and(|set| has_match(set, path))
    }
}

/// Whether the path matches, or a folder above it.
fn has_match(set: &GlobSet, path: &Path) -> bool {
    path.ancestors().any(|path| set.is_match(path))
}

fn set_of(patterns: &[String]) -> Result<Option<GlobSet>, String> {
    if patterns.is_empty() {
        return Ok(None);
    }
    let wrong = |pattern: &str, error: globset::Error| format!("`{pattern}` is no pattern: {}", error.kind());
    let glob = |pattern: &String| -> Result<Glob, String> {
        let plain = pattern.trim_end_matches('/');
        let anywhere = if plain.contains('/') { plain.to_owned() } else { format!("**/{plain}") };
        GlobBuilder::new(anywhere.trim_start_matches('/'))
            .literal_separator(true)
            .build()
            .map_err(|error| wrong(pattern, error))
    };
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(glob(pattern)?);
    }
    set.build().map(Some).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_of_paths_names_and_folders() {
        let takes = |include: &[&str], exclude: &[&str], path: &str| {
            let owned = |patterns: &[&str]| patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>();
            FolderFilter::new(&owned(include), &owned(exclude)).unwrap().takes(Path::new(path))
        };
        for (include, exclude, path, expected) in [
            (&[][..], &[][..], "a/b.bin", true),
            (&["*.bin"], &[], "a/b.bin", true),
            (&["*.bin"], &[], "a/b.txt", false),
            (&["a/*.bin"], &[], "a/b.bin", true),
            (&["a/*.bin"], &[], "a/c/b.bin", false),
            (&["a/**/*.bin"], &[], "a/c/d/b.bin", true),
            (&["a"], &[], "a/c/b", true),
            (&["/a/"], &[], "a/b", true),
            (&["a", "*.txt"], &["*.bin"], "a/b.bin", false),
            (&["a", "*.txt"], &["*.bin"], "z.txt", true),
            (&[], &["cache"], "x/cache/y", false),
            (&[], &["x/cache"], "y/x/cache", true),
        ] {
            assert_eq!(takes(include, exclude, path), expected, "{include:?} {exclude:?} {path}");
        }
        let wrong = FolderFilter::new(&["a[".to_owned()], &[]).unwrap_err();
        assert!(wrong.starts_with("`a[` is no pattern: "), "{wrong}");
    }
}
