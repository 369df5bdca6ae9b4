//! Documents that the hub tells: tables that are told whole, by content. Pure.
//!
//! In: frames, in order, and what the session before had of documents. Out: whole documents, one for each table at most, of tables that this agent
//! knows; what there is of others in the end. What does not fit together is let go of: the next session's hello says what is held.

use std::collections::BTreeMap;

use bytes::Bytes;
use karmada_proto::body::{Assembly, BodyError};
use karmada_proto::v1::{self, Table, Upsert};

/// Documents that come in.
#[derive(Debug, Default)]
pub(super) struct Documents {
    coming: BTreeMap<u32, Assembly>,
    whole: BTreeMap<u32, (Bytes, Bytes)>,
}

/// Why a frame is of no use.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// It is of a table that is no document here.
    Table,
    /// All of the document came, and it is not the one of its hash.
    Content,
}

impl Documents {
    /// With what the session before had of documents.
    pub fn continuing(coming: BTreeMap<u32, Assembly>) -> Self {
        Self { coming, whole: BTreeMap::new() }
    }

    /// What there is of documents that are not whole.
    pub fn into_parts(self) -> BTreeMap<u32, Assembly> {
        self.coming
    }

    /// Takes a frame.
    pub fn take(&mut self, frame: v1::Document) -> Result<(), Unusable> {
        let table = frame.table;
        if Table::try_from(table as i32) != Ok(Table::Customizations) {
            return Err(Unusable::Table);
        }
        let piece = Upsert {
            key: table.to_string(),
            hash: frame.hash.clone(),
            encoding: frame.encoding,
            encoded_size: frame.encoded_size,
            decoded_size: frame.decoded_size,
            offset: frame.offset,
            chunk: frame.chunk,
            ..Upsert::default()
        };
        match self.coming.entry(table).or_default().take(&piece) {
            Ok(Some(body)) => {
                // Neither keeps the frame that it came in.
                let whole = (Bytes::copy_from_slice(&frame.hash), Bytes::copy_from_slice(&body));
                self.whole.insert(table, whole);
                Ok(())
            }
            // A later hub may say what this agent cannot read: it gets its Works all the same.
            Ok(None)
            | Err(BodyError::TooLarge(_) | BodyError::OutOfOrder { .. } | BodyError::UnknownEncoding(_)) => {
                Ok(())
            }
            Err(_) => Err(Unusable::Content),
        }
    }

    /// Takes a document that is whole: its table, hash and body.
    pub fn next(&mut self) -> Option<(u32, Bytes, Bytes)> {
        self.whole.pop_first().map(|(table, (hash, body))| (table, hash, body))
    }

    /// Whether one is whole.
    pub fn is_there(&self) -> bool {
        !self.whole.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use karmada_proto::body;
    use karmada_proto::v1::Encoding;

    use super::*;

    fn frames(text: &str, step: usize) -> Vec<v1::Document> {
        let hash = body::hash(text.as_bytes());
        let pieces = text.as_bytes().chunks(step).enumerate();
        pieces
            .map(|(at, piece)| v1::Document {
                table: Table::Customizations as u32,
                hash: hash.clone(),
                encoding: Encoding::Identity.into(),
                encoded_size: text.len() as u64,
                decoded_size: text.len() as u64,
                offset: (at * step) as u64,
                chunk: Bytes::copy_from_slice(piece),
            })
            .collect()
    }

    #[test]
    fn a_document_is_there_once_it_is_whole_and_what_does_not_fit_is_let_go() {
        let mut documents = Documents::default();
        let table = Table::Customizations as u32;
        for frame in frames("[1,2,3,4]", 4) {
            assert!(!documents.is_there());
            documents.take(frame).unwrap();
        }
        let whole = (table, body::hash(b"[1,2,3,4]"), Bytes::from_static(b"[1,2,3,4]"));
        assert_eq!((documents.next(), documents.next()), (Some(whole), None));
        // A piece is missing; another document begins; a piece has another content than its hash says.
        documents.take(frames("[1,2,3,4]", 4).remove(0)).unwrap();
        documents.take(frames("[1,2,3,4]", 4).remove(2)).unwrap();
        documents.take(frames("[5,6]", 4).remove(1)).unwrap();
        let mut wrong = frames("[5,6]", 10).remove(0);
        wrong.chunk = Bytes::from_static(b"[5,7]");
        assert_eq!(documents.take(wrong), Err(Unusable::Content));
        assert!(!documents.is_there());
        frames("[5,6]", 4).into_iter().for_each(|frame| documents.take(frame).unwrap());
        assert_eq!(documents.next().map(|(.., body)| body), Some(Bytes::from_static(b"[5,6]")));
    }

    #[test]
    fn what_came_before_a_cut_is_gone_on_with() {
        let mut documents = Documents::default();
        let mut frames = frames("[1,2,3,4]", 4).into_iter();
        documents.take(frames.next().unwrap()).unwrap();
        let mut next = Documents::continuing(documents.into_parts());
        frames.for_each(|frame| next.take(frame).unwrap());
        assert_eq!(next.next().map(|(.., body)| body), Some(Bytes::from_static(b"[1,2,3,4]")));
    }

    #[test]
    fn a_table_that_is_no_document_is_named() {
        for table in [0, 1, 3, u32::MAX] {
            let frame = v1::Document { table, ..frames("[]", 10).remove(0) };
            assert_eq!(Documents::default().take(frame), Err(Unusable::Table), "{table}");
        }
    }

    #[test]
    fn one_that_is_too_large_is_not_gathered() {
        let mut documents = Documents::default();
        let frame = v1::Document { encoded_size: u64::MAX, ..frames("[1,2,3]", 2).remove(0) };
        documents.take(frame).unwrap();
        assert!(documents.coming.values().all(|coming| coming.partial().is_none()));
    }
}
