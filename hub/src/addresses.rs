//! Addresses of the hub: where it listens, and how others reach it. In: texts of flags. Out: addresses that work, or words why not.

use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};

/// Reads `--listen`: an address or a name, and a port. A name is resolved once, here; of its addresses the first of IPv4 is taken.
///
/// # Errors
/// In words: its shape, or what the resolver said.
pub fn listen(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let shape = || format!("{text:?} is not HOST:PORT, for example 0.0.0.0:5443 or localhost:5443");
    let (host, port) = text.rsplit_once(':').ok_or_else(shape)?;
    let port: u16 = port.parse().map_err(|_| shape())?;
    if host.is_empty() {
        return Ok(([0, 0, 0, 0], port).into());
    }
    if host.contains(':') {
        return Err(shape());
    }
    let found = (host, port).to_socket_addrs();
    let found: Vec<SocketAddr> =
        found.map_err(|error| format!("{host} does not resolve: {error}"))?.collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| format!("{host} resolves to no address"))
}

/// Reads `--advertise`: a host, `host:port`, or an https URL without a path. An IPv6 address gets its brackets.
///
/// # Errors
/// In words, for what would make a kubeconfig that leads nowhere.
pub fn advertised(text: &str) -> Result<String, String> {
    let shape = |why: &str| {
        format!("{why}: give HOST, HOST:PORT or https://HOST:PORT, as agents and users reach the hub")
    };
    let text = text.trim();
    if text.is_empty() {
        return Err(shape("it is empty (is a variable unset?)"));
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        return Ok(format!("[{text}]"));
    }
    let bare = text.strip_prefix("https://").unwrap_or(text).trim_end_matches('/');
    let (host, port) = match bare.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) if address.parse::<Ipv6Addr>().is_ok() => {
            (bare, rest.strip_prefix(':').or((!rest.is_empty()).then_some("")))
        }
        Some(_) => return Err(shape(&format!("{text:?} holds no IPv6 address"))),
        None => bare.split_once(':').map_or((bare, None), |(host, port)| (host, Some(port))),
    };
    let named =
        host.starts_with('[') || host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
    if host.is_empty() || !named {
        return Err(shape(&format!("{text:?} names no host")));
    }
    if port.is_some_and(|port| port.parse::<u16>().map_or(true, |port| port == 0)) {
        return Err(shape(&format!("{text:?} has no port from 1 to 65535 after its colon")));
    }
    Ok(if text.starts_with("https://") { format!("https://{bare}") } else { bare.to_owned() })
}

/// The URL that kubeconfigs are given.
pub fn url(advertise: &[String], address: SocketAddr) -> String {
    match advertise.first() {
        Some(given) if given.contains("://") => given.clone(),
        Some(given) if has_port(given) => format!("https://{given}"),
        Some(given) => format!("https://{given}:{}", address.port()),
        None if address.ip().is_unspecified() => format!("https://127.0.0.1:{}", address.port()),
        None => format!("https://{address}"),
    }
}

/// Whether a host has a port behind it: of an IPv6 address, behind its bracket.
fn has_port(given: &str) -> bool {
    given.rsplit_once(']').map_or(given, |(_, rest)| rest).contains(':')
}

/// Where others reach the hub by address: the first address advertised, the one that is listened at, or the one that the machine
/// goes out by, which no packet is sent to learn.
pub fn public_address(advertise: &[String], listening: SocketAddr) -> Option<SocketAddr> {
    let of_text = |text: &String| {
        let host = text.trim_start_matches("https://").trim_end_matches('/');
        let with_port = host.parse::<SocketAddr>().ok();
        with_port.or_else(|| Some(SocketAddr::new(host.parse().ok()?, listening.port())))
    };
    let is_public = |address: &SocketAddr| !address.ip().is_loopback() && !address.ip().is_unspecified();
    let given = advertise.iter().filter_map(of_text).chain([listening]).find(is_public);
    given.or_else(|| {
        let goes_out = |from: &str, to: &str| {
            let socket = std::net::UdpSocket::bind(from).ok()?;
            socket.connect(to).ok()?;
            socket.local_addr().ok().map(|at| SocketAddr::new(at.ip(), listening.port()))
        };
        let found = goes_out("0.0.0.0:0", "192.0.2.1:9").or_else(|| goes_out("[::]:0", "[2001:db8::1]:9"));
        found.filter(is_public)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listened_at_as_well() {
        for (text, address) in [
            ("0.0.0.0:5443", "0.0.0.0:5443"),
            ("[::1]:1", "[::1]:1"),
            ("localhost:5443", "127.0.0.1:5443"),
            (":5443", "0.0.0.0:5443"),
        ] {
            assert_eq!(listen(text), Ok(address.parse().unwrap()), "{text}");
        }
        for (wrong, told) in [
            ("", "is not HOST:PORT"),
            ("localhost", "is not HOST:PORT"),
            ("localhost:x", "is not HOST:PORT"),
            ("::1:5443x", "is not HOST:PORT"),
            ("hub.invalid:1", "does not resolve"),
        ] {
            let error = listen(wrong).unwrap_err();
            assert!(error.contains(told), "{wrong}: {error}");
        }
    }

    #[test]
    fn what_is_advertised_leads_somewhere() {
        let at = "127.0.0.1:7000".parse().unwrap();
        for (text, server) in [
            ("hub.example.org", "https://hub.example.org:7000"),
            ("hub.example.org:5443", "https://hub.example.org:5443"),
            ("https://hub.example.org:5443/", "https://hub.example.org:5443"),
            ("https://hub.example.org", "https://hub.example.org"),
            ("10.0.0.1", "https://10.0.0.1:7000"),
            ("[2001:db8::1]:5443", "https://[2001:db8::1]:5443"),
            ("[2001:db8::1]", "https://[2001:db8::1]:7000"),
            ("2001:db8::1", "https://[2001:db8::1]:7000"),
        ] {
            assert_eq!(url(&[advertised(text).unwrap()], at), server, "{text}");
        }
        for (wrong, told) in [
            ("", "it is empty"),
            (" ", "it is empty"),
            (":5443", "names no host"),
            ("https://", "names no host"),
            ("http://hub:80", "from 1 to 65535"),
            ("hub:", "from 1 to 65535"),
            ("hub:70000", "from 1 to 65535"),
            ("hub/path", "names no host"),
            ("[hub]:1", "no IPv6 address"),
            ("[::1]x", "from 1 to 65535"),
            ("a b", "names no host"),
        ] {
            let error = advertised(wrong).unwrap_err();
            assert!(error.contains(told), "{wrong}: {error}");
        }
    }
}
