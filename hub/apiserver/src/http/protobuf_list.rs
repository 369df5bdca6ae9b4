//! The body of a list in protobuf: its length stands before it, so every object is measured first and made again when it is sent.
//!
//! In: the objects of a page. Out: a body of known length, in chunks. However long a list is and however slow its reader, it holds one
//! chunk; measuring gives way to others every few objects.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use karmada_definitions::kind_row::KindRow;
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_kinds::conversion;
use karmada_schema::object::Stored;
use karmada_schema::protobuf::List;
use serde_json::Value;

use super::answer_body::Body;
use super::negotiation::{AnswerFormat, Meta, Shape};
use super::{respond, table};

/// About what is sent at once.
const CHUNK: usize = 64 << 10;

/// Objects measured before others get a turn.
const AT_ONCE: usize = 64;

/// The answer of a list, or of a deletion of many.
pub(super) async fn answer(
    definition: &ResourceDefinition,
    items: &[Arc<Stored>],
    metadata: &Value,
    format: AnswerFormat,
) -> Response<Body> {
    let (kind, api_version) = type_of_list(definition, format.shape);
    let own = definition.api_version();
    let item = match format.shape {
        Shape::Metadata(meta) => (meta.api_version(), "PartialObjectMetadata"),
        _ => (own.as_str(), &*definition.kind),
    };
    let mut list = match List::new(&api_version, &kind, item, metadata) {
        Ok(list) => list,
        // The form was chosen because the kind has it.
        Err(error) => {
            let status = Status::internal(error.to_string());
            return respond::refused(&status, &http::HeaderMap::new());
        }
    };
    let values: VecDeque<Item> =
        items.iter().map(|object| Item::of(definition, object, format.shape)).collect();
    for some in items.chunks(AT_ONCE) {
        some.iter().for_each(|object| list.measure(&Item::of(definition, object, format.shape).value()));
        tokio::task::yield_now().await;
    }
    let left = list.size() as u64;
    let start = Some(list.start());
    let body = Items { list, start, items: values, left }.boxed_unsync();
    let mut response = respond::with_type(StatusCode::OK, body, format.content_type());
    response.extensions_mut().insert(respond::CachedBytes);
    response
}

/// One object of the list, in the cache until its turn comes.
enum Item {
    /// As it is stored.
    Stored(Arc<Stored>),
    /// Its metadata alone.
    Metadata(&'static KindRow, Arc<Stored>, Meta),
    /// As the version that is asked for shows it.
    Made(Value),
}

impl Item {
    fn of(definition: &ResourceDefinition, object: &Arc<Stored>, shape: Shape) -> Item {
        match shape {
            Shape::Metadata(meta) => Item::Metadata(definition.row, object.clone(), meta),
            _ if definition.shows_as_stored(object) => Item::Stored(object.clone()),
            _ => Item::Made(conversion::from_storage(definition, object.value())),
        }
    }

    fn value(self) -> Value {
        match self {
            Item::Stored(object) => object.value(),
            Item::Metadata(row, object, meta) => table::metadata(row, &object, meta),
            Item::Made(value) => value,
        }
    }
}

struct Items {
    list: List,
    start: Option<Vec<u8>>,
    items: VecDeque<Item>,
    left: u64,
}

impl http_body::Body for Items {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let mut chunk = self.start.take().unwrap_or_default();
        while chunk.len() < CHUNK
            && let Some(item) = self.items.pop_front()
        {
            chunk.extend_from_slice(&self.list.item(&item.value()));
        }
        self.left = self.left.saturating_sub(chunk.len() as u64);
        Poll::Ready((!chunk.is_empty()).then(|| Ok(Frame::data(chunk.into()))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Kind and apiVersion of a list.
pub(super) fn type_of_list(definition: &ResourceDefinition, shape: Shape) -> (String, String) {
    match shape {
        Shape::Metadata(meta) => ("PartialObjectMetadataList".to_owned(), meta.api_version().to_owned()),
        _ => (format!("{}List", definition.kind), definition.api_version()),
    }
}
