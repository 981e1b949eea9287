//! A folder from several sources over loopback: all of it, a part of it, what has changed of it, and nothing that leads out.

use std::fs::{File, Permissions};
use std::io::{Seek, SeekFrom, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use crate::common::{NEVER, content, settings};
use pliant_net::flow::{FlowSettings, SocketTransport};
use pliant_net::transfer::{
    Fetched, FileSelector, FolderFilter, Offer, OfferedFiles, Settings, Target, TransferError, WantedFile,
    WantedFolder, fetch, fetch_folder,
};
use pliant_proto::congestion::Algorithm;
use pliant_proto::time::Span;

const MB: usize = 1 << 20;
const MODIFIED_S: u64 = 1_000_000_000;

fn weighted() -> Settings {
    let transport = SocketTransport::Tcp(Algorithm::WeightedFair);
    Settings { flow: FlowSettings { transport, ..settings().flow }, overwrite: true, ..settings() }
}

/// The files of two sources, and a place for what is fetched.
struct FolderSite {
    directory: tempfile::TempDir,
}

/// Writes a tree with folders, times, permissions and links of both kinds.
fn write_tree(root: &Path) {
    for folder in ["sub/deep", "empty"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    for (name, bytes) in
        [("a.bin", 3 * MB + 1), ("b.bin", 5 * MB), ("sub/none", 0), ("sub/c.txt", 1000), ("sub/deep/d.bin", MB)]
    {
        let path = root.join(name);
        std::fs::write(&path, content(bytes)).unwrap();
        File::open(&path).unwrap().set_modified(UNIX_EPOCH + Duration::from_secs(MODIFIED_S)).unwrap();
    }
    std::fs::set_permissions(root.join("sub/c.txt"), Permissions::from_mode(0o700)).unwrap();
    std::fs::write(root.join(".hidden"), "x").unwrap();
    std::fs::hard_link(root.join("a.bin"), root.join("sub/same")).unwrap();
    symlink("../b.bin", root.join("sub/link")).unwrap();
}

impl FolderSite {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let site = Self { directory };
        for number in 0..2 {
            write_tree(&site.source(number));
        }
        std::fs::create_dir(site.target()).unwrap();
        site
    }

    fn source(&self, number: usize) -> PathBuf {
        self.directory.path().join(number.to_string()).join("tree")
    }

    fn target(&self) -> PathBuf {
        self.directory.path().join("into")
    }

    fn with_sources<T>(&self, act: impl FnOnce(&[SocketAddr]) -> T) -> T {
        let stop = AtomicBool::new(false);
        let offer = |number| Offer::bind(([127, 0, 0, 1], 0).into(), &self.source(number), weighted()).unwrap();
        let offers: Vec<Offer> = (0..2).map(offer).collect();
        let addresses: Vec<SocketAddr> = offers.iter().map(Offer::address).collect();
        thread::scope(|scope| {
            for offer in offers {
                scope.spawn(|| offer.serve(None, &stop, |_| {}));
            }
            let result = act(&addresses);
            stop.store(true, Ordering::Relaxed);
            result
        })
    }

    fn fetch(&self, filter: &FolderFilter, settings: &Settings) -> Result<Fetched, TransferError> {
        let wanted = WantedFolder { name: "tree/".into(), hash: None, filter: filter.clone() };
        let target = Target::Directory(self.target());
        self.with_sources(|sources| fetch_folder(sources, &wanted, &target, settings, &NEVER, |_| {}, |_| {}))
    }

    fn names(&self) -> Vec<String> {
        let root = self.target().join("tree");
        let (mut names, mut folders) = (Vec::new(), vec![root.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                names.push(entry.path().strip_prefix(&root).unwrap().to_str().unwrap().to_owned());
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        names.sort();
        names
    }
}

const ALL: [&str; 10] =
    ["a.bin", "b.bin", "empty", "sub", "sub/c.txt", "sub/deep", "sub/deep/d.bin", "sub/link", "sub/none", "sub/same"];

fn symbols(fetched: &Fetched) -> u64 {
    fetched.sources.iter().map(|source| source.symbols).sum()
}

/// All of a folder comes: files in folders, empty ones, times, permissions, hard and symbolic links; nothing that is hidden, and
/// nothing is left beside it.
#[test]
fn a_folder_comes_as_it_is() {
    let site = FolderSite::new();
    let fetched = site.fetch(&FolderFilter::default(), &weighted()).unwrap();
    assert_eq!(site.names(), ALL);
    let there = |name: &str| site.target().join("tree").join(name);
    for name in ["a.bin", "b.bin", "sub/none", "sub/c.txt", "sub/deep/d.bin"] {
        assert!(std::fs::read(there(name)).unwrap() == std::fs::read(site.source(0).join(name)).unwrap(), "{name}");
        assert_eq!(there(name).metadata().unwrap().mtime(), MODIFIED_S as i64, "{name}");
    }
    let inode = |name: &str| there(name).symlink_metadata().unwrap().ino();
    assert_eq!(inode("a.bin"), inode("sub/same"));
    assert_eq!(there("sub/c.txt").metadata().unwrap().mode() & 0o777, 0o700);
    assert_eq!(there("sub/link").read_link().unwrap(), Path::new("../b.bin"));
    assert_eq!((fetched.bytes, fetched.kept), ((9 * MB + 1001) as u64, 0));
    let beside: Vec<_> = std::fs::read_dir(site.target()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(beside, ["tree"]);
    let refused = site.fetch(&FolderFilter::default(), &Settings { overwrite: false, ..weighted() });
    assert!(refused.unwrap_err().to_string().contains("already there"));
}

/// A file in a folder of the folder is fetched by its path, and lies under its name.
#[test]
fn a_file_in_a_folder_has_its_path_as_its_name() {
    let site = FolderSite::new();
    let wanted = WantedFile { name: Some("sub/deep/d.bin".into()), ..WantedFile::default() };
    let target = Target::Directory(site.target());
    let fetched =
        site.with_sources(|sources| fetch(sources, wanted, &target, &weighted(), &NEVER, |_| {}, |_| {})).unwrap();
    assert_eq!(fetched.path.unwrap(), site.target().join("d.bin"));
    assert!(std::fs::read(site.target().join("d.bin")).unwrap() == content(MB));
}

/// Of a folder that is there blocks that are the same are not sent again: with nothing changed no symbol is; with a byte of a
/// file changed, and another file new before it, about one block is and the files have what the sources have. What only the
/// receiver has stays.
#[test]
fn what_has_not_changed_is_not_sent_again() {
    let site = FolderSite::new();
    site.fetch(&FolderFilter::default(), &weighted()).unwrap();
    let again = site.fetch(&FolderFilter::default(), &weighted()).unwrap();
    assert_eq!((again.kept, symbols(&again)), (again.bytes, 0));
    for number in 0..2 {
        let source = site.source(number);
        let mut changed = File::options().write(true).open(source.join("b.bin")).unwrap();
        changed.seek(SeekFrom::Start(5 * MB as u64 - 1)).unwrap();
        changed.write_all(b"!").unwrap();
        std::fs::write(source.join("a0"), [7; 100]).unwrap();
        for name in ["b.bin", "a0"] {
            File::open(source.join(name))
                .unwrap()
                .set_modified(UNIX_EPOCH + Duration::from_secs(MODIFIED_S + 1))
                .unwrap();
        }
    }
    let own = site.target().join("tree/own");
    std::fs::write(&own, "mine").unwrap();
    let delta = site.fetch(&FolderFilter::default(), &weighted()).unwrap();
    for name in ["a0", "a.bin", "b.bin"] {
        let there = std::fs::read(site.target().join("tree").join(name)).unwrap();
        assert!(there == std::fs::read(site.source(0).join(name)).unwrap(), "{name}");
    }
    assert_eq!(std::fs::read(own).unwrap(), b"mine");
    // The block of 2 MiB with the new file, and the last one, with the changed byte.
    assert_eq!(delta.bytes - delta.kept, (3 * MB + 1101) as u64, "{delta:?}");
    assert!(symbols(&delta) < 5 * MB as u64 / 1000, "{} symbols", symbols(&delta));
}

/// Patterns choose files, and what has none of them is not sent.
#[test]
fn patterns_choose_files() {
    let site = FolderSite::new();
    let filter = FolderFilter::new(&["*.txt".into(), "sub/deep".into()], &["none".into()]).unwrap();
    let fetched = site.fetch(&filter, &weighted()).unwrap();
    assert_eq!(site.names(), ["sub", "sub/c.txt", "sub/deep", "sub/deep/d.bin"]);
    assert!(std::fs::read(site.target().join("tree/sub/deep/d.bin")).unwrap() == content(MB));
    // The files lie in the last of five blocks.
    assert!(symbols(&fetched) < 4 * MB as u64 / 1000, "{} symbols", symbols(&fetched));
    let offered = OfferedFiles::new();
    offered.add_folder(&site.source(0), &FolderFilter::new(&[], &["*.bin".into(), "same".into()]).unwrap()).unwrap();
    let mut names: Vec<String> = offered.list().iter().map(|file| file.offered().name.clone()).collect();
    names.sort();
    assert_eq!(names, ["sub/c.txt", "sub/none", "tree/"]);
    assert!(offered.find(&FileSelector::Name("a.bin".into())).is_err());
}

/// A link that leads out of the folder is refused by its name where it is offered; what is in the way at the receiver is named,
/// and no link there is followed.
#[test]
fn what_leads_out_is_named() {
    let site = FolderSite::new();
    symlink("../../secret", site.source(0).join("out")).unwrap();
    let error = OfferedFiles::new().add(&site.source(0)).unwrap_err().to_string();
    assert!(error.contains("out: this link leads out of the folder") && error.contains("--exclude"), "{error}");
    std::fs::remove_file(site.source(0).join("out")).unwrap();

    let elsewhere = site.directory.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::create_dir(site.target().join("tree")).unwrap();
    symlink(&elsewhere, site.target().join("tree/sub")).unwrap();
    let error = site.fetch(&FolderFilter::default(), &weighted()).unwrap_err().to_string();
    assert!(error.contains("sub: already there, and no folder"), "{error}");
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
}

/// Sources whose folders differ do not agree, as with files: one of two is no majority.
#[test]
fn folders_are_voted_on() {
    let site = FolderSite::new();
    std::fs::write(site.source(1).join("sub/c.txt"), "other").unwrap();
    let error = site.fetch(&FolderFilter::default(), &weighted()).unwrap_err();
    assert!(matches!(error, TransferError::NoMajority { .. }), "{error}");
}

/// A source that is silent does not hold up a folder: its contents come while the vote on its listing is open, and get their
/// place when that source is given up. One that answers late and has another folder makes a tie of one against one, and two of
/// them are the majority.
#[test]
fn who_is_silent_does_not_hold_up_a_folder() {
    let settings = Settings { connect_timeout: Span::from_secs(3), ..weighted() };
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for (late, expected) in
        [(&[][..], Ok("right")), (&["right"], Ok("right")), (&["wrong"], Err(())), (&["wrong", "wrong"], Ok("wrong"))]
    {
        let site = FolderSite::new();
        let text = |number: usize| std::fs::read(site.source(number).join("sub/c.txt")).unwrap();
        std::fs::write(site.source(1).join("sub/c.txt"), "another").unwrap();
        let texts = [text(0), text(1)];
        let offer = |number| Offer::bind(([127, 0, 0, 1], 0).into(), &site.source(number), weighted()).unwrap();
        let first = offer(0);
        let others: Vec<Offer> = late.iter().map(|which| offer(usize::from(*which == "wrong"))).collect();
        let silent = late.is_empty().then(|| nobody.local_addr().unwrap());
        let addresses: Vec<SocketAddr> =
            [first.address()].into_iter().chain(others.iter().map(Offer::address)).chain(silent).collect();
        let (stop, all_here) = (AtomicBool::new(false), AtomicBool::new(false));
        let mut news = Vec::new();
        let fetched = thread::scope(|scope| {
            scope.spawn(|| first.serve(None, &stop, |_| {}));
            for offer in others {
                scope.spawn(|| {
                    // It answers when all of the contents are here.
                    while !all_here.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
                        thread::yield_now();
                    }
                    offer.serve(None, &stop, |_| {})
                });
            }
            let wanted = WantedFolder { name: "tree/".into(), ..WantedFolder::default() };
            let fetched = fetch_folder(
                &addresses,
                &wanted,
                &Target::Directory(site.target()),
                &settings,
                &NEVER,
                |progress| all_here.store(progress.placing || all_here.load(Ordering::Relaxed), Ordering::Relaxed),
                |told| news.push(told.to_string()),
            );
            stop.store(true, Ordering::Relaxed);
            fetched
        });
        assert!(all_here.load(Ordering::Relaxed), "{late:?}: the contents came beside the vote: {news:?}");
        assert!(news[0].starts_with(&format!("1 of {} sources have answered", addresses.len())), "{late:?}: {news:?}");
        let disputed = news.iter().any(|told| told.contains("all sources are asked again"));
        assert_eq!(disputed, late.contains(&"wrong"), "{late:?}: {news:?}");
        if let Some(silent) = silent {
            assert!(news.iter().any(|told| told.starts_with(&format!("no answer from {silent}"))), "{news:?}");
        }
        let came = std::fs::read(site.target().join("tree/sub/c.txt")).ok();
        let which = came.map(|came| if came == texts[0] { "right" } else { "wrong" });
        assert_eq!(which, expected.ok(), "{late:?}: {news:?}");
        match fetched {
            Ok(_) => assert!(expected.is_ok()),
            Err(error) => assert!(matches!(error, TransferError::NoMajority { .. }), "{late:?}: {error}"),
        }
    }
}
