//! Documents that were built, kept until what is served changes.
//!
//! In: a form of document, what is served, what other servers add. Out: its bytes with their hash. A document takes many times as long
//! to be built as to be sent, and anybody may ask for it: it is built once, by a thread of its own, one at a time, while whoever asks for
//! it meanwhile waits for that one. The bytes are kept as they are sent: all answers share them, so that a thousand readers take no more
//! room than one, which a compressed form would save a megabyte or two of and lose.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use karmada_definitions::resource::Catalogue;
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;

use super::{openapi_v3, openapi_v3_index, v2_json, v2_protobuf};
use crate::aggregation::More;
use crate::openapi::Documents;

/// Bytes that documents of group versions may have together: those of everything that ships have less.
const MOST: usize = 16 << 20;

/// Which document.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// OpenAPI v2 as JSON.
    V2Json,
    /// OpenAPI v2 as protobuf.
    V2Protobuf,
    /// The index of OpenAPI v3.
    V3Index,
    /// OpenAPI v3 of what is at this path below `/openapi/v3/`.
    V3(String),
}

/// Bytes, and the hash by which clients know that they have them.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub bytes: Bytes,
    pub etag: String,
}

impl Document {
    pub(crate) fn of(bytes: Bytes) -> Document {
        let hash: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02X}")).collect();
        Document { bytes, etag: format!("\"{hash}\"") }
    }
}

/// The documents. Clones are the same ones.
#[derive(Clone, Default)]
pub(crate) struct Published(Arc<Mutex<Shelf>>);

/// Documents of one catalogue.
#[derive(Default)]
struct Shelf {
    of: Option<Arc<Catalogue>>,
    /// Each with what other servers had added.
    documents: HashMap<Form, (Arc<More>, Document)>,
    /// Of the documents of group versions.
    bytes: usize,
}

impl Published {
    /// The document; `None` where nothing is served that it would be of. Who asks and goes away leaves the one that is being built to
    /// the others.
    pub(crate) async fn document(
        &self,
        form: Form,
        catalogue: Arc<Catalogue>,
        more: Arc<More>,
    ) -> Option<Document> {
        let mut shelf = self.0.clone().lock_owned().await;
        if let Some(kept) = shelf.get(&form, &catalogue, &more) {
            return Some(kept);
        }
        let build = move || {
            let document = build(&form, &catalogue, &more).map(Document::of)?;
            shelf.put(form, &catalogue, more, &document);
            Some(document)
        };
        tokio::task::spawn_blocking(build).await.ok().flatten()
    }
}

impl Shelf {
    fn get(&self, form: &Form, catalogue: &Arc<Catalogue>, more: &More) -> Option<Document> {
        let is_now = self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, catalogue));
        let (added, document) = self.documents.get(form).filter(|_| is_now)?;
        added.is_as(more).then(|| document.clone())
    }

    fn put(&mut self, form: Form, catalogue: &Arc<Catalogue>, more: Arc<More>, document: &Document) {
        if !self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, catalogue)) {
            *self = Shelf { of: Some(catalogue.clone()), ..Shelf::default() };
        }
        if matches!(form, Form::V3(_)) {
            if document.bytes.len() > MOST {
                return;
            }
            if self.bytes + document.bytes.len() > MOST {
                self.documents.retain(|form, _| !matches!(form, Form::V3(_)));
                self.bytes = 0;
            }
            self.bytes += document.bytes.len();
        }
        self.documents.insert(form, (more, document.clone()));
    }
}

fn build(form: &Form, catalogue: &Catalogue, more: &More) -> Option<Bytes> {
    let everything = || Documents::read(catalogue, |_, _| true);
    match form {
        Form::V2Json => Some(v2_json(&everything().served(), more)),
        Form::V2Protobuf => Some(v2_protobuf(&everything().served(), more)),
        Form::V3Index => Some(openapi_v3_index(catalogue)),
        Form::V3(path) => openapi_v3(catalogue, path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped() -> Arc<Catalogue> {
        Arc::new(Catalogue::new(karmada_kinds::catalogue::shipped().iter().cloned()))
    }

    #[tokio::test]
    async fn a_document_is_built_once_until_what_is_served_changes() {
        let (published, served) = (Published::default(), shipped());
        let ask = |form: Form, served: &Arc<Catalogue>| {
            let (published, served) = (published.clone(), served.clone());
            async move { published.document(form, served, Arc::default()).await }
        };
        for form in [Form::V2Json, Form::V2Protobuf, Form::V3Index, Form::V3("apis/apps/v1".to_owned())] {
            let first = ask(form.clone(), &served).await.unwrap();
            let again = ask(form.clone(), &served).await.unwrap();
            assert_eq!(first.bytes.as_ptr(), again.bytes.as_ptr(), "{form:?}");
            let other = ask(form.clone(), &shipped()).await.unwrap();
            assert_ne!(first.bytes.as_ptr(), other.bytes.as_ptr(), "{form:?}");
            assert_eq!(first.etag, other.etag, "{form:?}");
        }
        assert!(ask(Form::V3("apis/none/v1".to_owned()), &served).await.is_none());
    }

    #[tokio::test]
    async fn who_asks_and_goes_away_leaves_no_second_building_behind() {
        let (published, served) = (Published::default(), shipped());
        for _ in 0..50 {
            let asked = published.document(Form::V2Json, served.clone(), Arc::default());
            // It is polled once, so that the building has begun.
            let _ = futures::poll!(std::pin::pin!(asked));
        }
        let document = published.document(Form::V2Json, served, Arc::default()).await.unwrap();
        let shelf = published.0.lock().await;
        assert_eq!(shelf.documents[&Form::V2Json].1.bytes.as_ptr(), document.bytes.as_ptr());
    }

    #[test]
    fn documents_of_group_versions_have_their_bound() {
        let (mut shelf, served) = (Shelf::default(), shipped());
        let document = Document::of(Bytes::from(vec![b'x'; MOST / 8]));
        shelf.put(Form::V2Json, &served, Arc::default(), &document);
        for at in 0..50 {
            shelf.put(Form::V3(format!("apis/g{at}/v1")), &served, Arc::default(), &document);
            assert!(shelf.bytes <= MOST && shelf.documents.len() <= 9);
        }
        assert!(shelf.documents.contains_key(&Form::V2Json));
    }
}
