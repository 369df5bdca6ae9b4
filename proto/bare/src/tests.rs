//! Messages over a connection that carries any number of bytes at a time.

use futures::{SinkExt as _, StreamExt as _};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::*;

/// Any prost message does: one with a field of bytes.
type Text = String;

const LIMITS: Limits = Limits { first: 100, then: 100_000 };

fn incoming(io: DuplexStream) -> Incoming<DuplexStream, Text> {
    Incoming::new(io, LIMITS)
}

/// What is read of these bytes, and how it ends, where so many fit into the connection at once.
async fn read(bytes: Vec<u8>, width: usize) -> (Vec<Text>, Option<String>) {
    let (mut far, near) = tokio::io::duplex(width);
    let writes = tokio::spawn(async move {
        let _ = far.write_all(&bytes).await;
    });
    let (mut all, mut frames) = (Vec::new(), incoming(near));
    let broken = loop {
        match frames.next().await {
            Some(Ok(text)) => all.push(text),
            Some(Err(error)) => break Some(error.to_string()),
            None => break None,
        }
    };
    assert!(frames.next().await.is_none(), "it is over once");
    drop(frames);
    writes.await.unwrap();
    (all, broken)
}

async fn written(messages: &[Text], width: usize) -> Vec<u8> {
    let (near, mut far) = tokio::io::duplex(width);
    let reads = tokio::spawn(async move {
        let mut all = Vec::new();
        far.read_to_end(&mut all).await.unwrap();
        all
    });
    let mut out = Outgoing::new(near);
    for message in messages {
        out.send(message.clone()).await.unwrap();
    }
    out.close().await.unwrap();
    drop(out);
    reads.await.unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// However the bytes come, and cut off anywhere: what is whole is read, and whether it was cut within a message is told.
    #[test]
    fn what_is_said_is_heard(lengths in prop::collection::vec(0..90_usize, 0..5), long in 0..60_000_usize, width in 1..5_000_usize, cut in any::<prop::sample::Index>()) {
        let mut messages: Vec<Text> = lengths.iter().map(|length| "x".repeat(*length)).collect();
        if !messages.is_empty() {
            messages.push("y".repeat(long));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let bytes = runtime.block_on(written(&messages, width));
        prop_assert_eq!(&runtime.block_on(read(bytes.clone(), width)), &(messages.clone(), None));
        let end = cut.index(bytes.len() + 1);
        let (heard, broken) = runtime.block_on(read(bytes[..end].to_vec(), width));
        prop_assert!(messages.starts_with(&heard));
        let whole: usize = heard.iter().map(|text| HEAD + prost::Message::encoded_len(text)).sum();
        prop_assert_eq!(broken.is_some(), whole != end, "{:?}", broken);
    }

    #[test]
    fn nothing_that_comes_does_harm(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(read(bytes, 64));
    }
}

#[tokio::test]
async fn a_message_is_as_long_as_is_allowed_and_the_first_is_short() {
    let long = |length: u32| [&length.to_be_bytes()[..], &[0; 8]].concat();
    let (heard, broken) = read(long(101), 64).await;
    assert_eq!(
        (heard.len(), broken.as_deref()),
        (0, Some("a message of 101 bytes was announced, where 100 are the most"))
    );
    let first = written(&["hello".to_owned()], 64).await;
    let (heard, broken) = read([first.clone(), long(100_001)].concat(), 64).await;
    assert_eq!(heard, ["hello"]);
    assert!(broken.unwrap().contains("where 100000 are the most"));
    let (heard, broken) = read([first, long(100_000)].concat(), 64).await;
    assert_eq!(heard, ["hello"]);
    assert_eq!(broken.as_deref(), Some("the connection ended within a message"));
}

#[tokio::test]
async fn what_may_not_be_decoded_is_not() {
    let messages = ["one".to_owned(), "no".repeat(10), "three".to_owned()];
    let bytes = written(&messages, 64).await;
    let (mut far, near) = tokio::io::duplex(1 << 10);
    far.write_all(&bytes).await.unwrap();
    let mut frames = incoming(near).only(|bytes| !bytes.ends_with(b"no"));
    assert_eq!(frames.next().await.unwrap().unwrap(), "one");
    assert!(matches!(frames.next().await, Some(Err(Broken::Unlikely))));
    assert!(frames.next().await.is_none(), "it is over");
}

/// What is announced is not there yet, and takes no memory.
#[tokio::test]
async fn memory_follows_what_comes() {
    let (mut far, near) = tokio::io::duplex(64);
    let mut frames: Incoming<_, Text> = Incoming::new(near, Limits { first: 1 << 30, then: 1 << 30 });
    far.write_all(&(1_u32 << 30).to_be_bytes()).await.unwrap();
    far.write_all(&[0; 60]).await.unwrap();
    assert!(futures::poll!(frames.next()).is_pending());
    let (body, length) = frames.body.as_ref().unwrap();
    assert!(*length == 1 << 30 && body.len() == 60 && body.capacity() < 64 << 10, "{}", body.capacity());
}
