//! Tables that are one document each: told whole, by content, where the agent holds another.
//!
//! In: what the agent holds, whole and in part, by its hello; the documents as they are now. Out: frames, one at a time, each made when it is to be
//! sent. One of which the agent has a part goes on after that.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use karmada_proto::DOCUMENTS;
use karmada_proto::body::{self, Encoded};
use karmada_proto::v1::{self, Hello, Table};

use super::chunk_size::ChunkSize;

/// Documents that an agent may have in part: more than there are tables.
const TABLES: usize = 16;

/// A document, encoded once for all agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Which table it is.
    pub table: Table,
    /// Of the decoded body, as [`body::hash`] has it.
    pub hash: Bytes,
    /// The body.
    pub body: Encoded,
}

impl Document {
    /// Of a body.
    pub fn new(table: Table, body: &Bytes) -> Self {
        Self { table, hash: body::hash(body), body: body::encode(body) }
    }
}

/// What is told, and what is still to be.
#[derive(Debug)]
pub(super) struct Documents {
    /// `None`: the agent takes none.
    held: Option<BTreeMap<u32, Bytes>>,
    wanted: BTreeMap<u32, Arc<Document>>,
    /// What the agent holds in part from a session that was cut.
    partial: Vec<v1::PartialDocument>,
    /// The one that is being told, and how much of it was.
    telling: Option<(Arc<Document>, u64)>,
    chunk_size: ChunkSize,
}

impl Documents {
    /// For the agent that said this.
    pub fn new(hello: &Hello) -> Self {
        let takes = hello.features.iter().any(|feature| feature == DOCUMENTS);
        let held =
            hello.holdings.iter().map(|holding| (holding.table, Bytes::copy_from_slice(&holding.hash)));
        Self {
            held: takes.then(|| held.collect()),
            wanted: BTreeMap::new(),
            partial: hello.partial_documents.iter().take(TABLES).cloned().collect(),
            telling: None,
            chunk_size: ChunkSize::default(),
        }
    }

    /// The document of its table is this from now on. One of which the rest is still to come is not told to its end.
    pub fn want(&mut self, document: Arc<Document>) {
        if self.held.is_none() {
            return;
        }
        let table = document.table as u32;
        if self
            .telling
            .as_ref()
            .is_some_and(|(telling, _)| telling.table == document.table && **telling != *document)
        {
            self.telling = None;
        }
        self.wanted.insert(table, document);
    }

    /// The next frame.
    pub fn next(&mut self) -> Option<v1::Document> {
        let held = self.held.as_mut()?;
        let differs = |document: &Document| held.get(&(document.table as u32)) != Some(&document.hash);
        if self.telling.is_none() {
            let next = self.wanted.values().find(|document| differs(document))?;
            let next = next.clone();
            let held = received_of(&mut self.partial, &next);
            self.telling = Some((next, held));
        }
        let (document, offset) = self.telling.as_mut()?;
        let chunk = body::chunk(&document.body.bytes, *offset, self.chunk_size.next());
        self.chunk_size.sent(chunk.len() as u64);
        let frame = v1::Document {
            table: document.table as u32,
            hash: document.hash.clone(),
            encoding: document.body.encoding.into(),
            encoded_size: document.body.bytes.len() as u64,
            decoded_size: document.body.decoded_size,
            offset: *offset,
            chunk: chunk.clone(),
        };
        *offset += chunk.len() as u64;
        if *offset >= frame.encoded_size {
            held.insert(frame.table, frame.hash.clone());
            self.telling = None;
        }
        Some(frame)
    }
}

/// How much of this very document the agent has. It is asked once: what is begun anew in a session takes its place.
fn received_of(partial: &mut Vec<v1::PartialDocument>, document: &Document) -> u64 {
    let Some(at) = partial.iter().position(|part| part.table == document.table as u32) else { return 0 };
    let part = partial.swap_remove(at);
    let goes_on = part.hash == document.hash && part.received < document.body.bytes.len() as u64;
    if goes_on { part.received } else { 0 }
}

#[cfg(test)]
mod tests {
    use karmada_proto::CHUNK;
    use karmada_proto::v1::Holding;

    use super::*;

    fn hello(takes: bool, holds: &[&Document]) -> Hello {
        let holdings = holds.iter().map(|held| Holding { table: held.table as u32, hash: held.hash.clone() });
        let features = if takes { vec![DOCUMENTS.to_owned()] } else { Vec::new() };
        Hello { features, holdings: holdings.collect(), ..Hello::default() }
    }

    /// A body that does not shrink.
    fn noise(length: usize, seed: u64) -> Arc<Document> {
        let mut state = seed;
        let bytes = (0..length).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        });
        Arc::new(Document::new(Table::Customizations, &bytes.collect::<Vec<u8>>().into()))
    }

    #[test]
    fn what_is_held_already_is_not_told_and_what_is_told_is_told_once() {
        let document = noise(200_000, 1);
        let mut holds = Documents::new(&hello(true, &[&document]));
        holds.want(document.clone());
        assert_eq!(holds.next(), None);
        let mut older = Documents::new(&hello(false, &[]));
        older.want(document.clone());
        assert_eq!(older.next(), None, "an agent without the feature");
        let mut other = Documents::new(&hello(true, &[&noise(10, 2)]));
        other.want(document.clone());
        let frames: Vec<v1::Document> = std::iter::from_fn(|| other.next()).collect();
        assert!(frames.len() > 3 && frames.iter().all(|frame| frame.chunk.len() <= CHUNK));
        let whole: Vec<u8> = frames.iter().flat_map(|frame| frame.chunk.to_vec()).collect();
        assert_eq!(whole, document.body.bytes);
        other.want(document);
        assert_eq!(other.next(), None);
    }

    #[test]
    fn what_the_agent_has_of_one_is_not_told_again() {
        let (document, other) = (noise(200_000, 1), noise(200_000, 2));
        for (has, received, begins) in
            [(&document, 150_000, 150_000), (&document, 200_000, 0), (&other, 150_000, 0)]
        {
            let part = v1::PartialDocument { table: document.table as u32, hash: has.hash.clone(), received };
            let mut documents = Documents::new(&Hello { partial_documents: vec![part], ..hello(true, &[]) });
            documents.want(document.clone());
            let frames: Vec<v1::Document> = std::iter::from_fn(|| documents.next()).collect();
            assert_eq!(frames[0].offset, begins);
            let told: Vec<u8> = frames.iter().flat_map(|frame| frame.chunk.to_vec()).collect();
            assert_eq!(told, document.body.bytes[begins as usize..]);
        }
    }

    #[test]
    fn a_newer_one_takes_the_place_of_one_that_is_half_told() {
        let (old, new) = (noise(200_000, 1), noise(1000, 2));
        let mut documents = Documents::new(&hello(true, &[]));
        documents.want(old.clone());
        assert_eq!(documents.next().map(|frame| frame.hash), Some(old.hash.clone()));
        documents.want(new.clone());
        let frame = documents.next().unwrap();
        assert_eq!((&frame.hash, frame.offset, frame.encoded_size), (&new.hash, 0, 1000));
        assert_eq!(documents.next(), None);
        documents.want(old.clone());
        assert_eq!(documents.next().map(|frame| (frame.hash, frame.offset)), Some((old.hash.clone(), 0)));
    }
}
