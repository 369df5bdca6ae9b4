//! `karmada-hub certs`: changes a CA of the hub in its data directory. A hub that runs there takes it within seconds; it need not run.
//!
//! In: the data directory, the word. Out: files below `pki`, and what to do next.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use karmada_certs::Authorities;

use crate::data_dir::{AuthorityOf, DataDir};

/// What `certs` is told.
#[derive(clap::Subcommand)]
pub enum Certs {
    /// Make a new CA, which signs from now on. The one that signed is trusted until it is dropped, and agents get new certificates
    /// by themselves.
    NewCa(Which),
    /// Trust the older CA no more: its certificates are refused from now on, on connections that are open as well.
    DropOlderCa(Which),
}

/// Which CA.
#[derive(clap::Args)]
pub struct Which {
    /// Where the hub keeps its state.
    #[arg(long)]
    data_dir: PathBuf,
    /// The CA by which agents and users know the hub, or the one by which servers of APIServices do.
    #[arg(long, value_enum, default_value_t = AuthorityOf::Hub)]
    of: AuthorityOf,
}

impl Certs {
    /// Does it; what to say to whoever asked.
    ///
    /// # Errors
    /// There is no CA there, a change is under way, or a file cannot be written.
    pub fn run(&self, now: Timestamp) -> Result<String> {
        let (Certs::NewCa(Which { data_dir, of }) | Certs::DropOlderCa(Which { data_dir, of })) = self;
        let folder = DataDir::authority_folder(data_dir, *of);
        let of_the_front_proxy = if *of == AuthorityOf::FrontProxy { " --of front-proxy" } else { "" };
        match self {
            Certs::NewCa(_) => {
                let all = Authorities::change(&folder, now)
                    .with_context(|| format!("making a new CA in {}", folder.display()))?;
                let ends = all.ends().first().map(|ca| ca.end.to_string()).unwrap_or_default();
                let pin = all.signing().pin();
                let (data_dir, next) = (data_dir.display(), "karmadactl certs check-expiration");
                Ok(format!(
                    "the new CA signs until {ends}; its hash for --discovery-token-ca-cert-hash is {pin}\n\
                     the older one is trusted beside it. Next: when `{next}` shows no certificate of it any more, and people \
                     have the new kubeconfig, karmada-hub certs drop-older-ca --data-dir {data_dir}{of_the_front_proxy}"
                ))
            }
            Certs::DropOlderCa(_) => {
                let was = Authorities::drop_older(&folder)
                    .with_context(|| format!("dropping the older CA in {}", folder.display()))?;
                ensure!(
                    was,
                    "there is no older CA in {}: karmada-hub certs new-ca begins a change{}",
                    folder.display(),
                    of_the_front_proxy
                );
                Ok("the older CA is trusted no more".to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_ca_is_changed_in_two_steps_with_words_for_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let now = Timestamp::from_second(1_760_000_000).unwrap();
        let nowhere = Which { data_dir: folder.path().to_owned(), of: AuthorityOf::Hub };
        assert!(Certs::NewCa(nowhere).run(now).is_err(), "no hub was here");
        for of in [AuthorityOf::Hub, AuthorityOf::FrontProxy] {
            let which = || Which { data_dir: folder.path().to_owned(), of };
            let data = DataDir::open(folder.path(), now).unwrap();
            assert!(format!("{:#}", Certs::DropOlderCa(which()).run(now).unwrap_err()).contains("new-ca"));
            let said = Certs::NewCa(which()).run(now).unwrap();
            assert!(said.contains("drop-older-ca") && said.contains("sha256:"), "{said}");
            assert_eq!(said.contains("--of front-proxy"), of == AuthorityOf::FrontProxy);
            assert!(data.reload().unwrap() && !data.reload().unwrap());
            let changed = if of == AuthorityOf::Hub { data.authorities() } else { data.front_proxy() };
            assert_eq!(changed.ends().len(), 2);
            assert!(
                format!("{:#}", Certs::NewCa(which()).run(now).unwrap_err())
                    .contains("drop the older one first")
            );
            Certs::DropOlderCa(which()).run(now).unwrap();
            assert!(data.reload().unwrap());
        }
    }
}
