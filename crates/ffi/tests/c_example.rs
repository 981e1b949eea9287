//! The C examples are built against the header and the library, and run.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo has put the library: beside the test, or a folder above.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folders = test.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join("libpliant.so")).find(|library| library.exists());
    found.expect("cargo builds the library before its tests").parent().unwrap().to_owned()
}

/// Each example compiles without a warning and runs, plain and encrypted: megabytes go there and back, in one stream and in
/// the streams of a bundle.
#[test]
fn the_c_examples_build_and_run() {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no C compiler `cc` here");
        return;
    }
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    std::fs::write(&key, format!("preshared {}\n", "5a".repeat(32))).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    for (example, says) in
        [("echo", "2000000 bytes there and back\n"), ("bundle", "64 streams, 1280000 bytes there and back\n")]
    {
        let (program, library) = (directory.path().join(example), library());
        let built = Command::new("cc")
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(home.join("include"))
            .arg(home.join("examples").join(example).with_extension("c"))
            .arg("-L")
            .arg(&library)
            .args(["-lpliant", "-lpthread", "-o"])
            .arg(&program)
            .output()
            .unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        for arguments in [vec![], vec![&key]] {
            let run = Command::new(&program).args(&arguments).env("LD_LIBRARY_PATH", &library).output().unwrap();
            assert!(run.status.success(), "{example}: {}", String::from_utf8_lossy(&run.stderr));
            assert_eq!(String::from_utf8_lossy(&run.stdout), says);
        }
    }
}

/// A program's own names are safe from the library: what it exports begins with `pliant_`, and is in the header.
#[test]
fn only_what_the_header_has_is_exported() {
    let library = library().join("libpliant.so");
    let Ok(listed) = Command::new("nm").args(["--dynamic", "--defined-only"]).arg(library).output() else {
        eprintln!("skipped: there is no `nm` here");
        return;
    };
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let header = include_str!("../include/pliant.h");
    let listed = String::from_utf8(listed.stdout).unwrap();
    let exported: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert!(exported.contains(&"pliant_send"), "{exported:?}");
    for name in exported {
        assert!(name.starts_with("pliant_") && header.contains(&format!("{name}(")), "{name} is not in the header");
    }
}
