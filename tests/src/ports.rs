//! Loopback ports, for programs that cannot be given port 0.
//!
//! In: nothing. Out: a port number that is free. It opens and closes one connection on loopback for that.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

/// A port of 127.0.0.1 that the kernel chose and, for a minute, gives to nobody else.
///
/// The port is left behind in TIME_WAIT by a connection to itself: the kernel then does not hand it out, and a
/// listener with SO_REUSEADDR (every server here) may still bind it. Just closing a listener would let two
/// programs that start at the same time get the same port.
pub fn reserve() -> u16 {
    let listener =
        TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("loopback has free ports");
    let address = listener.local_addr().expect("a bound listener has an address");
    let client = TcpStream::connect(address).expect("the listener listens");
    let (server, _) = listener.accept().expect("the client connected");
    // The side that closes first is the one that keeps the port waiting.
    drop(server);
    drop(client);
    address.port()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn reserved_ports_differ_and_can_be_bound() {
        let ports: BTreeSet<u16> = (0..50).map(|_| reserve()).collect();
        assert_eq!(ports.len(), 50);
        for port in ports {
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        }
    }
}
