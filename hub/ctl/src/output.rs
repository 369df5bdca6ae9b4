//! What a person or a pipe reads. In: text. Out: stdout, and progress on stderr where somebody looks at it.

use std::io::{ErrorKind, IsTerminal, Write};

use anyhow::{Context, Result};
use serde_json::Value;

/// Writes to stdout; a reader that has gone (`| head`) is no error.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("writing to stdout"),
        _ => Ok(()),
    }
}

/// Writes a line to stdout.
pub fn line(text: &str) -> Result<()> {
    print(&format!("{text}\n"))
}

/// Objects as YAML, as `kubectl apply -f` reads them.
pub fn yaml(objects: &[Value]) -> Result<String> {
    let texts: Result<Vec<String>> = objects
        .iter()
        .map(|object| {
            let text = serde_saphyr::to_string(object).context("writing YAML")?;
            Ok(if text.ends_with('\n') { text } else { format!("{text}\n") })
        })
        .collect();
    Ok(texts?.join("---\n"))
}

/// What is being waited for, a line for each change; silent where stderr is no terminal.
pub struct Progress {
    shown: bool,
    last: String,
}

impl Progress {
    /// Shown on a terminal only.
    pub fn new() -> Progress {
        Progress { shown: std::io::stderr().is_terminal(), last: String::new() }
    }

    /// The present step.
    pub fn step(&mut self, text: &str) {
        if self.shown && self.last != text {
            eprintln!("… {text}");
            text.clone_into(&mut self.last);
        }
    }
}
