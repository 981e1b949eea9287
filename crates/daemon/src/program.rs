//! Whether a program would load the preload library.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use elf::ElfStream;
use elf::abi::{PT_INTERP, PT_NOTE};
use elf::endian::AnyEndian;
use elf::file::Class;

/// Most scripts that are run by scripts, as in the kernel.
const MAX_SCRIPTS: usize = 4;
/// Most bytes of a script's first line, as in the kernel.
const MAX_FIRST_LINE_BYTES: u64 = 256;
/// Larger loader paths or notes are not accepted.
const MAX_PART_BYTES: u64 = 64 << 10;
/// Name of a Go program's notes.
const GO: &str = "Go";
/// Bits of a program that runs as its file's user or group.
const SET_ID: u32 = 0o6000;

/// A program, and whether it would load the preload library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// The file. For a script it is its interpreter.
    pub file: PathBuf,
    /// Why it would not; `None` if it would.
    pub obstacle: Option<Obstacle>,
}

/// Why a program does not load the preload library, or does so to no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// It is statically linked.
    Static,
    /// Its Go runtime makes system calls itself.
    Go,
    /// It is made for another C library.
    Musl,
    /// It runs as the user or the group of its file.
    SetId,
    /// It is not a program for this processor.
    Foreign,
}

impl Obstacle {
    /// The reason in words.
    pub fn why(self) -> &'static str {
        match self {
            Self::Static => "it is static: it loads no library",
            Self::Go => "it is a Go program, which calls the kernel itself",
            Self::Musl => "it is made for musl, the library for the GNU C library",
            Self::SetId => "it runs as the user or group of its file (setuid): the loader ignores LD_PRELOAD",
            Self::Foreign => "it is no program for this processor with 64 bits",
        }
    }
}

impl Program {
    /// Examines a program, by its path or its name in `PATH`.
    ///
    /// # Errors
    ///
    /// If there is no such program, or it cannot be read.
    pub fn examine(name: &OsStr) -> io::Result<Self> {
        let mut name = name.to_owned();
        for _ in 0..=MAX_SCRIPTS {
            let file = find(&name)?;
            let mut opened = File::open(&file)?;
            match interpreter(&mut opened)? {
                Some(interpreter) => name = interpreter,
                None => return Ok(Self { obstacle: obstacle(opened)?, file }),
            }
        }
        Err(io::Error::other("scripts run each other in a circle"))
    }
}

/// The file of a program.
fn find(name: &OsStr) -> io::Result<PathBuf> {
    let absent = || io::Error::new(io::ErrorKind::NotFound, format!("there is no program {}", name.display()));
    if name.as_bytes().contains(&b'/') {
        return Path::new(name).canonicalize();
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_program = |path: &PathBuf| path.metadata().is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0);
    let mut paths = std::env::split_paths(&folders).map(|folder| folder.join(name));
    paths.find(is_program).ok_or_else(absent)?.canonicalize()
}

/// The interpreter of a script. For `env` it is the program that `env` looks for.
fn interpreter(file: &mut File) -> io::Result<Option<std::ffi::OsString>> {
    let mut head = Vec::new();
    file.take(MAX_FIRST_LINE_BYTES).read_to_end(&mut head)?;
    file.seek(SeekFrom::Start(0))?;
    let Some(rest) = head.strip_prefix(b"#!") else { return Ok(None) };
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let first = words.next().ok_or_else(|| io::Error::other("a script names no program"))?;
    let is_env = first.rsplit(|byte| *byte == b'/').next() == Some(b"env");
    let looked_for = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    let program = looked_for.filter(|_| is_env).unwrap_or(first);
    Ok(Some(OsStr::from_bytes(program).to_owned()))
}

fn obstacle(file: File) -> io::Result<Option<Obstacle>> {
    let mode = file.metadata()?.mode();
    let Ok(mut program) = ElfStream::<AnyEndian, _>::open_stream(file) else { return Ok(Some(Obstacle::Foreign)) };
    let of_this_processor = match std::env::consts::ARCH {
        "x86_64" => program.ehdr.e_machine == elf::abi::EM_X86_64,
        "aarch64" => program.ehdr.e_machine == elf::abi::EM_AARCH64,
        _ => true,
    };
    if program.ehdr.class != Class::ELF64 || !of_this_processor {
        return Ok(Some(Obstacle::Foreign));
    }
    let parts = program.segments().clone();
    let of_kind =
        |kind| move |part: &&elf::segment::ProgramHeader| part.p_type == kind && part.p_filesz <= MAX_PART_BYTES;
    for part in parts.iter().filter(of_kind(PT_NOTE)) {
        let Ok(mut notes) = program.segment_data_as_notes(part) else { continue };
        if notes
            .any(|note| matches!(note, elf::note::Note::Unknown(note) if note.name_str().is_ok_and(|name| name == GO)))
        {
            return Ok(Some(Obstacle::Go));
        }
    }
    let Some(loader) = parts.iter().find(of_kind(PT_INTERP)) else { return Ok(Some(Obstacle::Static)) };
    let loader = program.segment_data(loader).map_err(io::Error::other)?;
    if String::from_utf8_lossy(loader).contains("ld-musl") {
        return Ok(Some(Obstacle::Musl));
    }
    Ok((mode & SET_ID != 0).then_some(Obstacle::SetId))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn examine(path: &Path) -> io::Result<Program> {
        Program::examine(path.as_os_str())
    }

    /// The test itself is dynamic; so is a script that it would run, but not the same file as another user's.
    #[test]
    fn dynamic_programs_and_their_scripts_load_it() {
        let own = std::env::current_exe().unwrap().canonicalize().unwrap();
        assert_eq!(examine(&own).unwrap(), Program { file: own.clone(), obstacle: None });
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, format!("#! {} -x\nwords\n", own.display())).unwrap();
        assert_eq!(examine(&script).unwrap().file, own);
        std::fs::write(&script, format!("#!/usr/bin/env -S A=1 {}\n", own.display())).unwrap();
        assert_eq!(examine(&script).unwrap().file, own);
        std::fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        assert!(examine(&script).unwrap_err().to_string().contains("circle"));
        assert_eq!(Program::examine(OsStr::new("no such program")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(Program::examine(OsStr::new("sh")).unwrap().obstacle, None);
        let other = folder.path().join("other");
        std::fs::copy(&own, &other).unwrap();
        std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o4755)).unwrap();
        assert_eq!(examine(&other).unwrap().obstacle, Some(Obstacle::SetId));
    }

    /// Programs of which nothing but the headers is there.
    #[test]
    fn headers_tell_why_not() {
        let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
        // The header of a program with these parts, and their bytes behind it (System V ABI, chapter 4 and 5).
        let program = |parts: &[(u32, &[u8])]| {
            let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            bytes.extend([2_u16, machine].map(u16::to_le_bytes).concat());
            bytes.extend(1_u32.to_le_bytes());
            bytes.extend([0_u64, 64, 0].map(u64::to_le_bytes).concat());
            bytes.extend(0_u32.to_le_bytes());
            bytes.extend([64, 56, parts.len() as u16, 64, 0, 0].map(u16::to_le_bytes).concat());
            let mut offset = 64 + 56 * parts.len() as u64;
            for (kind, content) in parts {
                bytes.extend([*kind, 4].map(u32::to_le_bytes).concat());
                let length = content.len() as u64;
                bytes.extend([offset, 0, 0, length, length, 4].map(u64::to_le_bytes).concat());
                offset += length;
            }
            for (_, content) in parts {
                bytes.extend(*content);
            }
            bytes
        };
        let loader: &[u8] = b"/lib64/ld-linux-x86-64.so.2\0";
        // A name of three bytes and a build's identity of four.
        let go: &[u8] = &[4, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, b'G', b'o', 0, 0, 1, 2, 3, 4];
        let mut foreign = program(&[(PT_INTERP, loader)]);
        foreign[18] = 40;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        for (bytes, expected) in [
            (program(&[(PT_INTERP, loader)]), None),
            (program(&[]), Some(Obstacle::Static)),
            (program(&[(PT_INTERP, loader), (PT_NOTE, go)]), Some(Obstacle::Go)),
            (program(&[(PT_NOTE, go)]), Some(Obstacle::Go)),
            (program(&[(PT_INTERP, b"/lib/ld-musl-x86_64.so.1\0")]), Some(Obstacle::Musl)),
            (foreign, Some(Obstacle::Foreign)),
            (b"words".to_vec(), Some(Obstacle::Foreign)),
        ] {
            std::fs::write(&file, &bytes).unwrap();
            assert_eq!(examine(&file).unwrap().obstacle, expected);
            // A part of a program is refused somehow.
            for length in 0..bytes.len() {
                std::fs::write(&file, &bytes[..length]).unwrap();
                let _ = examine(&file);
            }
        }
    }
}
