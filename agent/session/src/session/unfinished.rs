//! What a session that was cut had received in part, for the next one to go on with.
//!
//! In: the parts of a session that ended. Out: what the next hello says of them, and how much of each there is. Pure.

use std::collections::BTreeMap;

use bytes::Bytes;
use karmada_proto::body::Assembly;
use karmada_proto::v1;

/// The parts.
#[derive(Debug, Default)]
pub struct Unfinished {
    /// Of the body of a Work.
    pub(super) body: Assembly,
    /// Of documents, by their tables.
    pub(super) documents: BTreeMap<u32, Assembly>,
}

impl Unfinished {
    /// Bytes received of each body or document, by its hash.
    pub fn received(&self) -> BTreeMap<Bytes, u64> {
        let parts = std::iter::once(&self.body).chain(self.documents.values());
        parts.filter_map(Assembly::partial).map(|(_, hash, received)| (hash.clone(), received)).collect()
    }

    /// As a hello says it.
    pub(super) fn partial(&self) -> Option<v1::Partial> {
        let (key, hash, received) = self.body.partial()?;
        Some(v1::Partial { key: key.to_owned(), hash: hash.clone(), received })
    }

    /// The same of documents.
    pub(super) fn partial_documents(&self) -> Vec<v1::PartialDocument> {
        let partial = |(table, part): (&u32, &Assembly)| {
            let (_, hash, received) = part.partial()?;
            Some(v1::PartialDocument { table: *table, hash: hash.clone(), received })
        };
        self.documents.iter().filter_map(partial).collect()
    }
}
