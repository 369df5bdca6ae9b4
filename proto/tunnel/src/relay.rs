//! Moves bodies and connections through one end of a tunnel.
//!
//! In: a body, or the connection that became another protocol's. Out: the same as parts that this end says; what it hears, into the connection.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use karmada_proto::v1::TunnelResetCode;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::CHUNK;
use crate::pump::{Incoming, Outgoing, Part, Reset};

/// Says a body, to its end. One that breaks off ends the tunnel by `code`; `words` says why.
pub async fn say<E>(
    mut body: UnsyncBoxBody<Bytes, E>,
    outgoing: Outgoing,
    code: TunnelResetCode,
    words: impl FnOnce(E) -> String,
) {
    while let Some(frame) = body.frame().await {
        match frame.map(http_body::Frame::into_data) {
            Ok(Ok(bytes)) => {
                if !outgoing.say(Part::Data(bytes)).await {
                    return;
                }
            }
            // Trailers go no further.
            Ok(Err(_)) => {}
            Err(error) => return outgoing.reset(Reset::new(code, words(error))).await,
        }
    }
}

/// Both directions of a connection, each until it ends: what is said of it, and what is heard for it. Which of them ends the whole is for the
/// caller to say.
pub fn both<C>(
    connection: C,
    outgoing: Outgoing,
    mut incoming: Incoming,
) -> (impl Future<Output = ()> + Send, impl Future<Output = ()> + Send)
where
    C: AsyncRead + AsyncWrite + Send,
{
    let (mut from, mut to) = tokio::io::split(connection);
    let says = async move {
        let mut buffer = vec![0; CHUNK];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            if !outgoing.say(Part::Data(Bytes::copy_from_slice(&buffer[..length]))).await {
                return;
            }
        }
    };
    let hears = async move {
        while let Some(Ok(Part::Data(bytes))) = incoming.next().await {
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    };
    (says, hears)
}
