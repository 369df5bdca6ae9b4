//! `karmadactl token`: the tokens with which clusters join. In: a life, a description. Out: a bootstrap token Secret on the hub
//! (`kube-system/bootstrap-token-ID`), and the line to run beside the member.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use karmada_api::strings::identity::BOOTSTRAP_GROUP;
use karmada_api::time;
use karmada_certs::{JoinToken, Pin};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Map, Value, json};

use crate::access::Access;
use crate::connection::Connection;
use crate::register::HubAddress;
use crate::{duration, output, table};

const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
const TYPE: &str = "bootstrap.kubernetes.io/token";
const USAGE: &str = "usage-bootstrap-";

/// The joins that a token has left; a token without it has a hundred.
const USES_LEFT: &str = "uses-left";

/// Commands of `token`.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Make a token and print it.
    Create(Create),
    /// List the tokens; their secrets are not shown.
    List,
    /// Delete tokens by id (or whole).
    Delete {
        /// The tokens.
        #[arg(required = true, value_name = "ID")]
        tokens: Vec<String>,
    },
}

/// Flags of `token create`.
#[derive(clap::Args)]
pub struct Create {
    /// How long it holds; 0 for ever.
    #[arg(long, default_value = "24h", value_parser = duration::parse, allow_hyphen_values = true)]
    ttl: Duration,
    /// What it is for.
    #[arg(long)]
    description: Option<String>,
    /// How many clusters may join with it.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    uses: u32,
    /// How many may join with it in a minute, in the long run; twice as many at once.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    joins_per_minute: u32,
    /// The only name that a cluster may join under with it.
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,
    /// The groups that it authenticates as.
    #[arg(long, value_delimiter = ',', default_value = BOOTSTRAP_GROUP)]
    groups: Vec<String>,
    /// What it may be used for.
    #[arg(long, value_delimiter = ',', default_value = "signing,authentication", value_parser = ["signing", "authentication"])]
    usages: Vec<String>,
    /// Print the whole command to run beside the member's kubeconfig.
    #[arg(long)]
    print_register_command: bool,
    /// HOST:PORT under which members reach the hub, for the printed command [default: the kubeconfig's server]
    #[arg(long, value_name = "HOST:PORT", requires = "print_register_command")]
    advertise: Option<HubAddress>,
}

/// Runs one of them.
pub async fn run(access: &Access, command: Command, now: Timestamp) -> Result<()> {
    let hub = access.hub().await?;
    match command {
        Command::Create(flags) => create(&hub, &flags, now).await,
        Command::List => list(&hub, now).await,
        Command::Delete { tokens } => delete(&hub, &tokens).await,
    }
}

#[expect(clippy::disallowed_methods, reason = "here a token is drawn")]
async fn create(hub: &Connection, flags: &Create, now: Timestamp) -> Result<()> {
    for group in &flags.groups {
        ensure!(
            is_bootstrap_group(group),
            "{group:?} is not a group that a token may carry: it must begin with system:bootstrappers:"
        );
    }
    if let Some(name) = &flags.cluster_name {
        let wrong = karmada_api::validation::cluster::validate_name(name);
        ensure!(wrong.is_empty(), "{name:?} is not a cluster's name: {}", wrong[0]);
    }
    let token = JoinToken::generate(&mut rand::rng());
    let line = if flags.print_register_command {
        let address = match &flags.advertise {
            Some(address) => address.clone(),
            None => HubAddress::of_server(&hub.server)?,
        };
        if address.is_loopback() {
            eprintln!(
                "warning: {address} leads to the hub on this machine only: give --advertise HOST:PORT for members elsewhere"
            );
        }
        register_command(&address, &token, &pin(hub)?)
    } else {
        token.reveal()
    };
    hub.create(SECRETS, &secret(&token, flags, now)).await.context("storing the token")?;
    output::line(&line)
}

/// kubeadm's rule for groups of tokens.
fn is_bootstrap_group(group: &str) -> bool {
    let rest = group.strip_prefix("system:bootstrappers:").unwrap_or_default();
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    rest.len() <= 256
        && rest.bytes().all(|b| letter(b) || b == b':' || b == b'-')
        && rest.bytes().last().is_some_and(letter)
}

/// The hash of the CA that the kubeconfig trusts.
fn pin(hub: &Connection) -> Result<Pin> {
    let context = &hub.chosen.context;
    let Some(pem) = &hub.ca else {
        bail!(
            "the context {context} names no certificate-authority, so its hash cannot be printed: use the hub's admin.kubeconfig"
        )
    };
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| {
        anyhow::anyhow!("the CA of the context {context} is not a PEM certificate: {error}")
    })?;
    Ok(Pin::of_certificate(&certificate)?)
}

/// The line to run beside the member's kubeconfig.
fn register_command(address: &HubAddress, token: &JoinToken, pin: &Pin) -> String {
    // By way of standard input: an argument is seen by everybody who may list processes; a shell's own echo is no process.
    format!(
        "echo {} | karmadactl register {address} --token-file - --discovery-token-ca-cert-hash {pin}",
        token.reveal()
    )
}

/// The Secret of a token, as kubeadm's.
fn secret(token: &JoinToken, flags: &Create, now: Timestamp) -> Value {
    let mut data = Map::new();
    let mut put = |key: &str, value: &str| data.insert(key.to_owned(), json!(BASE64.encode(value)));
    put("token-id", token.id());
    put("token-secret", token.secret());
    if let Some(description) = &flags.description {
        put("description", description);
    }
    if !flags.ttl.is_zero() {
        let end = jiff::SignedDuration::try_from(flags.ttl).ok().and_then(|ttl| now.checked_add(ttl).ok());
        put("expiration", &time::seconds(end.unwrap_or(Timestamp::MAX)));
    }
    for usage in &flags.usages {
        put(&format!("{USAGE}{usage}"), "true");
    }
    if !flags.groups.is_empty() {
        put("auth-extra-groups", &flags.groups.join(","));
    }
    put(USES_LEFT, &flags.uses.to_string());
    put("joins-per-minute", &flags.joins_per_minute.to_string());
    if let Some(name) = &flags.cluster_name {
        put("cluster-name", name);
    }
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": TYPE,
        "metadata": {"name": format!("bootstrap-token-{}", token.id()), "namespace": "kube-system"},
        "data": data,
    })
}

async fn list(hub: &Connection, now: Timestamp) -> Result<()> {
    // The type is checked here as well: a server that does not select by it sends every Secret.
    let found = hub.get(&format!("{SECRETS}?fieldSelector=type%3D{}", TYPE.replace('/', "%2F"))).await?;
    let mut rows = vec![
        ["TOKEN", "TTL", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS"].map(str::to_owned).to_vec(),
    ];
    let tokens = found["items"].as_array().into_iter().flatten().filter(|secret| secret["type"] == TYPE);
    rows.extend(tokens.map(|secret| row(secret, now)));
    output::print(&table::of_rows(&rows))
}

/// A token's line; its secret is left out.
fn row(secret: &Value, now: Timestamp) -> Vec<String> {
    let field = |key: &str| field(secret, key);
    let expiration = field("expiration");
    let ttl = match expiration.parse::<Timestamp>() {
        _ if expiration.is_empty() => "<forever>".to_owned(),
        Ok(end) if end <= now => "<expired>".to_owned(),
        Ok(end) => duration::human(end.duration_since(now).unsigned_abs()),
        Err(_) => "<invalid>".to_owned(),
    };
    let keys = secret["data"].as_object().into_iter().flatten();
    let used: Vec<&str> = keys
        .filter_map(|(key, _)| key.strip_prefix(USAGE))
        .filter(|usage| field(&format!("{USAGE}{usage}")) == "true")
        .collect();
    let mut description = field("description");
    if !field(USES_LEFT).is_empty() {
        let space = if description.is_empty() { "" } else { " " };
        description = format!("{description}{space}({} uses left)", field(USES_LEFT));
    }
    if !field("cluster-name").is_empty() {
        description = format!("{description} for {}", field("cluster-name"));
    }
    let or = |text: String, none: &str| if text.is_empty() { none.to_owned() } else { text };
    vec![
        field("token-id"),
        ttl,
        or(expiration, "<never>"),
        or(used.join(","), "<none>"),
        or(description, "<none>"),
        or(field("auth-extra-groups"), "<none>"),
    ]
}

fn field(secret: &Value, key: &str) -> String {
    let bytes = BASE64.decode(secret["data"][key].as_str().unwrap_or_default()).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

async fn delete(hub: &Connection, tokens: &[String]) -> Result<()> {
    for token in tokens {
        let id = token.split('.').next().unwrap_or_default();
        let shape = id.len() == 6 && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        ensure!(
            shape,
            "{id:?} is not a token's id (6 characters of a-z and 0-9): karmadactl token list shows them"
        );
        if !hub.delete(&format!("{SECRETS}/bootstrap-token-{id}")).await? {
            bail!("there is no token {id} on {}: karmadactl token list shows those there are", hub.server);
        }
        output::line(&format!("bootstrap token {id:?} deleted"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use clap::error::ErrorKind;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        create: Create,
    }

    fn flags(line: &str) -> Create {
        Line::try_parse_from(std::iter::once("create").chain(line.split_whitespace())).unwrap().create
    }

    fn token() -> JoinToken {
        JoinToken::parse("abcdef.0123456789abcdef").unwrap()
    }

    #[test]
    fn a_token_survives_its_secret_and_its_row_hides_it() {
        let now: Timestamp = "2026-01-01T00:00:00.5Z".parse().unwrap();
        for (line, row_text) in [
            (
                "",
                "abcdef 23h 2026-01-02T00:00:00Z authentication,signing (100 uses left) system:bootstrappers:karmada:default-cluster-token",
            ),
            (
                "--ttl 0 --uses 3 --description shops --usages authentication --groups system:bootstrappers:a,system:bootstrappers:b",
                "abcdef <forever> <never> authentication shops (3 uses left) system:bootstrappers:a,system:bootstrappers:b",
            ),
        ] {
            let made = secret(&token(), &flags(line), now);
            assert_eq!(made["metadata"]["name"], "bootstrap-token-abcdef");
            assert_eq!(made["type"], "bootstrap.kubernetes.io/token");
            assert_eq!(
                (field(&made, "token-id").as_str(), field(&made, "token-secret").as_str()),
                ("abcdef", "0123456789abcdef")
            );
            assert_eq!(row(&made, now).join(" "), row_text);
        }
        let later = "2026-02-01T00:00:00Z".parse().unwrap();
        assert_eq!(row(&secret(&token(), &flags(""), now), later)[1], "<expired>");
    }

    #[test]
    fn the_printed_line_and_the_flags() {
        let pin = Pin::of_spki(b"key");
        let address: HubAddress = "hub.example:5443".parse().unwrap();
        assert_eq!(
            register_command(&address, &token(), &pin),
            format!(
                "echo abcdef.0123456789abcdef | karmadactl register hub.example:5443 --token-file - --discovery-token-ca-cert-hash {pin}"
            )
        );
        for (line, kind) in [
            ("--uses 0", ErrorKind::ValueValidation),
            ("--usages flying", ErrorKind::InvalidValue),
            ("--ttl soon", ErrorKind::ValueValidation),
            ("--advertise a:1", ErrorKind::MissingRequiredArgument),
        ] {
            let parsed = Line::try_parse_from(std::iter::once("create").chain(line.split_whitespace()));
            assert_eq!(parsed.err().map(|error| error.kind()), Some(kind), "{line}");
        }
        assert!(is_bootstrap_group(BOOTSTRAP_GROUP));
        for wrong in
            ["system:masters", "system:bootstrappers:", "system:bootstrappers:A", "system:bootstrappers:a-"]
        {
            assert!(!is_bootstrap_group(wrong), "{wrong}");
        }
    }
}
