//! A socket that says when it last brought a byte: what a slow agent is in the middle of sending is life.

use karmada_proto::pulse::Pulse;
use tokio::io::AsyncRead;
use tokio::time::Instant;
use tokio_util::io::InspectReader;

/// Tells `pulse`, which counts from `started`, of each read that brings anything.
pub fn heard<S: AsyncRead>(
    socket: S,
    started: Instant,
    pulse: Pulse,
) -> InspectReader<S, impl FnMut(&[u8]) + Send + Unpin> {
    InspectReader::new(socket, move |bytes: &[u8]| {
        if !bytes.is_empty() {
            pulse.beat(started.elapsed());
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_byte_read_is_heard_and_none_that_is_written() {
        let (near, mut far) = tokio::io::duplex(64);
        let pulse = Pulse::default();
        let mut socket = heard(near, Instant::now(), pulse.clone());
        tokio::time::sleep(Duration::from_secs(5)).await;
        socket.write_all(b"out").await.unwrap();
        assert_eq!(pulse.last(), Duration::ZERO);
        far.write_all(b"i").await.unwrap();
        assert_eq!(socket.read_u8().await.unwrap(), b'i');
        assert_eq!(pulse.last(), Duration::from_secs(5));
    }
}
