//! What karmadactl tells of its doings on standard error, beside what a command prints. In: two flags or their variables. Out: lines
//! for a person, or JSON for a collector; by default nothing but warnings.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// How to log.
#[derive(clap::Args, Clone, Debug)]
pub struct Logging {
    /// What to log: a level (error, warn, info, debug, trace) or MODULE=LEVEL; `debug` shows every request
    #[arg(long, global = true, value_name = "FILTER", env = "KARMADA_LOG", default_value = "warn")]
    log: String,
    /// How lines look
    #[arg(long, global = true, value_enum, env = "KARMADA_LOG_FORMAT", default_value_t = Format::Text)]
    log_format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For a person
    Text,
    /// One object a line
    Json,
}

impl Logging {
    /// From here on, everything that is told is written. What the client library says of a server that does not answer is said by
    /// the command's own error.
    ///
    /// # Errors
    /// A filter that cannot be read.
    pub fn start(&self) -> anyhow::Result<()> {
        let asked = if self.log.trim().is_empty() { "warn" } else { self.log.trim() };
        let filter =
            EnvFilter::try_new(format!("kube_client=off,hyper=info,h2=info,rustls=warn,tower=info,{asked}"));
        let filter = filter.map_err(|error| {
            anyhow::anyhow!(
                "--log {asked:?}: {error}: give a level (error, warn, info, debug, trace) or MODULE=LEVEL"
            )
        })?;
        let builder = tracing_subscriber::fmt()
            .with_env_filter(filter)
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
