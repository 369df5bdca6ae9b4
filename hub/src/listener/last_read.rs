//! A socket that says when it last brought a byte: an agent on a slow link that is in the middle of sending a frame is alive.
//!
//! In: a socket, and what notes times. Out: the same socket; what is read is not looked at.

use karmada_proto::last_read::LastRead;
use tokio::io::AsyncRead;
use tokio::time::Instant;
use tokio_util::io::InspectReader;

/// Tells `last_read`, which counts from `started`, of each read that brings anything.
pub fn noting_reads<S: AsyncRead>(
    socket: S,
    started: Instant,
    last_read: LastRead,
) -> InspectReader<S, impl FnMut(&[u8]) + Send + Unpin> {
    InspectReader::new(socket, move |bytes: &[u8]| {
        if !bytes.is_empty() {
            last_read.note(started.elapsed());
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_byte_read_is_noted_and_none_that_is_written() {
        let (near, mut far) = tokio::io::duplex(64);
        let last_read = LastRead::default();
        let mut socket = noting_reads(near, Instant::now(), last_read.clone());
        tokio::time::sleep(Duration::from_secs(5)).await;
        socket.write_all(b"out").await.unwrap();
        assert_eq!(last_read.at(), Duration::ZERO);
        far.write_all(b"i").await.unwrap();
        assert_eq!(socket.read_u8().await.unwrap(), b'i');
        assert_eq!(last_read.at(), Duration::from_secs(5));
    }
}
