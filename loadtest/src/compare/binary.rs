//! Which binary of Baton is measured: the one that ships, brought up to date before the run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Baton's sources were when this program was built.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The binary to be measured: `given`, or the one beside this program, after `cargo build -p baton` in this program's
/// own profile. Without the sources the one beside it is taken as it is. What comes back is a copy in `directory`, so
/// that all repetitions measure the same one, whatever is built meanwhile; it is not there if there is no binary.
///
/// # Errors
/// Baton does not build, or cannot be copied.
pub fn baton(given: Option<&Path>, directory: &Path) -> io::Result<PathBuf> {
    let original = match given {
        Some(given) => given.to_owned(),
        None => beside()?,
    };
    let copy = directory.join("baton");
    if original.is_file() {
        fs::copy(&original, &copy)?;
    }
    Ok(copy)
}

fn beside() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.parent().unwrap_or(Path::new("."));
    let manifest = Path::new(SOURCES).join("Cargo.toml");
    if manifest.is_file() {
        build(&manifest, folder)?;
    }
    Ok(folder.join("baton"))
}

/// Has cargo compare the sources with the binary. `folder` is `<target directory>/<profile>`.
fn build(manifest: &Path, folder: &Path) -> io::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let target = folder.parent().unwrap_or(folder);
    let mut command = Command::new(cargo);
    command.args(["build", "--package", "baton", "--bin", "baton", "--profile", profile]);
    command.arg("--manifest-path").arg(manifest).arg("--target-dir").arg(target);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(io::Error::other(format!("cargo build -p baton: {status}"))),
        // No cargo here: whoever built this program elsewhere has put Baton beside it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
