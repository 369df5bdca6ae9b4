//! What the hub says of itself on standard error. In: two flags or their variables. Out: lines for a person, or JSON for a collector.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// Libraries whose words at these levels are for their own authors: a member that does not answer is told in ours.
const LIBRARIES: &str = "kube_client=off,hyper=info,h2=info,rustls=warn,tower=info";

/// How to log.
#[derive(clap::Args, Clone, Debug)]
pub struct Logging {
    /// What to log: a level (error, warn, info, debug, trace) or, by module, `info,karmada_controllers=debug`; `info`, for the demo
    /// `error`, where it is not given.
    #[arg(long, global = true, value_name = "FILTER", env = "KARMADA_LOG")]
    log: Option<String>,
    /// How lines look.
    #[arg(long, global = true, value_enum, env = "KARMADA_LOG_FORMAT", default_value_t = Format::Text)]
    log_format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For a person.
    Text,
    /// One object a line.
    Json,
}

/// The filter that a text asks for; an empty one asks for the `usual`. What it says of a library goes before what is said here.
fn filter(asked: Option<&str>, usual: &str) -> Result<EnvFilter, String> {
    let asked = asked.map(str::trim).filter(|text| !text.is_empty()).unwrap_or(usual);
    let whole = format!("{LIBRARIES},{asked}");
    EnvFilter::try_new(whole).map_err(|error| {
        format!("--log {asked:?}: {error}: give a level (error, warn, info, debug, trace) or MODULE=LEVEL, with commas between")
    })
}

impl Logging {
    /// From here on, everything that is told is written.
    ///
    /// # Errors
    /// In words, for a filter that cannot be read.
    pub fn start(&self, usual: &str) -> Result<(), String> {
        let builder = tracing_subscriber::fmt()
            .with_env_filter(filter(self.log.as_deref(), usual)?)
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal());
        match self.log_format {
            Format::Text => builder.init(),
            Format::Json => {
                builder.json().flatten_event(true).with_current_span(false).with_span_list(false).init();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_filter_says_goes_before_what_is_said_of_libraries() {
        for asked in
            [None, Some(""), Some("debug"), Some("info,karmada_controllers=debug"), Some("kube_client=trace")]
        {
            let made = filter(asked, "info").unwrap().to_string();
            let client =
                if asked == Some("kube_client=trace") { "kube_client=trace" } else { "kube_client=off" };
            assert!(made.contains(client), "{made}");
        }
        assert!(filter(Some("karmada=loud"), "info").unwrap_err().contains("give a level"));
    }
}
