//! A join token on the command line, which every user of the machine can read: it goes into a file of the state directory, and the process
//! begins anew without it. Pure but for [`hide`].
//!
//! In: the arguments of this process, the token, the state directory. Out: the same process with `--token-file` in its place; where that
//! fails, a warning and the process as it is.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;

use karmada_certs::{JoinToken, files};

/// The file in the state directory.
const FILE: &str = "join-token";

/// The arguments with the token's file in place of the token; `None` where no token is among them.
fn without_token(arguments: impl IntoIterator<Item = OsString>, file: &Path) -> Option<Vec<OsString>> {
    let (mut hidden, mut found) = (Vec::new(), false);
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let whole = argument == OsStr::new("--token");
        if whole {
            arguments.next()?;
        }
        if whole || argument.as_encoded_bytes().starts_with(b"--token=") {
            found = true;
            hidden.extend(["--token-file".into(), file.as_os_str().to_owned()]);
        } else {
            hidden.push(argument);
        }
    }
    found.then_some(hidden)
}

/// Begins the process anew without `token` among its arguments. Returns where there is none, or where that is not possible.
pub fn hide(token: &JoinToken, state_dir: &Path) {
    let file = state_dir.join(FILE);
    let Some(arguments) = without_token(std::env::args_os().skip(1), &file) else { return };
    tracing::warn!(
        file = %file.display(),
        "--token shows the join token to every user of this machine: it is moved into a file; give --token-file instead"
    );
    let begun = files::write_private(&file, token.reveal().as_bytes())
        .map_err(|error| error.to_string())
        .and_then(|()| {
            let program = std::env::current_exe().map_err(|error| error.to_string())?;
            // Comes back only where it failed.
            Err::<(), String>(std::process::Command::new(program).args(arguments).exec().to_string())
        });
    if let Err(error) = begun {
        tracing::warn!(error, "the token stays on the command line");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_replaced_by_its_file_and_nothing_else_changes() {
        let of = |words: &str| {
            let words = words.split_whitespace().map(OsString::from);
            let hidden = without_token(words, Path::new("/s/join-token"))?;
            Some(hidden.join(OsStr::new(" ")).into_string().unwrap())
        };
        let file = "--hub h:1 --token-file /s/join-token --state-dir /s";
        assert_eq!(of("--hub h:1 --token abcdef.0123456789abcdef --state-dir /s").as_deref(), Some(file));
        assert_eq!(of("--hub h:1 --token=abcdef.0123456789abcdef --state-dir /s").as_deref(), Some(file));
        assert_eq!(of("--hub h:1 --token-file /f"), None);
        assert_eq!(of("--token"), None);
    }
}
