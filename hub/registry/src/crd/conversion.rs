//! Conversion by webhook: objects of one version shown and stored in another, as the definition's own server has it.
//!
//! In: objects and the version wanted. Out: the same objects in that version, their identity as it was; or why not.

mod converted;
pub(crate) mod watched;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use karmada_definitions::crd::{Conversion, Custom, version_of};
use karmada_definitions::status::Status;
use karmada_definitions::version::api_version;
use karmada_schema::object::{Stored, encode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::converted::Converted;
use crate::cache::Cache;
use crate::webhook::{self, Purpose, Target};

/// How long a webhook may take.
const WITHIN: Duration = Duration::from_secs(30);

/// Stored objects in this version, ready to be shown. Costs nothing where no webhook is asked.
///
/// # Errors
/// The webhook is not there, or fails.
pub(crate) async fn view(
    custom: &Custom,
    cache: &Cache,
    objects: Vec<Arc<Stored>>,
) -> Result<Vec<Arc<Stored>>, Status> {
    if !custom.asks_webhook() {
        return Ok(objects);
    }
    let mut shown = Vec::with_capacity(objects.len());
    for batch in batches(objects) {
        shown.extend(view_batch(custom, cache, batch).await?);
    }
    Ok(shown)
}

async fn view_batch(
    custom: &Custom,
    cache: &Cache,
    objects: Vec<Arc<Stored>>,
) -> Result<Vec<Arc<Stored>>, Status> {
    let are_foreign: Vec<bool> =
        objects.iter().map(|object| stored_version(object) != custom.resource.version).collect();
    let foreign: Vec<Bytes> =
        objects.iter().zip(&are_foreign).filter(|(_, is)| **is).map(|(object, _)| object.json()).collect();
    if foreign.is_empty() {
        return Ok(objects);
    }
    let converted = convert(custom, cache, &foreign, &custom.resource.version).await?;
    let mut next = 0;
    let shown = objects.into_iter().zip(are_foreign).map(|(stored, is_foreign)| {
        if !is_foreign {
            return Ok(stored);
        }
        let object = converted.take(&foreign[next], next)?;
        next += 1;
        shown(custom, &object, stored.revision)
    });
    shown.collect()
}

/// An object of this version as the cache would hold it, had it been stored so.
///
/// # Errors
/// It is no object.
pub(crate) fn shown(custom: &Custom, object: &Value, revision: u64) -> Result<Arc<Stored>, Status> {
    let bytes = encode(object, &custom.resource.kind, &custom.resource.api_version());
    Stored::read(&bytes, revision).map(Arc::new).map_err(Status::internal)
}

/// An object of this version in the stored one.
///
/// # Errors
/// The webhook is not there, or fails.
pub(crate) async fn store(custom: &Custom, cache: &Cache, object: Value) -> Result<Value, Status> {
    let wanted = custom.crd.storage_version();
    if !custom.asks_webhook() || version_of(&object) == wanted {
        return Ok(custom.to_storage(object));
    }
    let sent = [Bytes::from(object.to_string())];
    convert(custom, cache, &sent, wanted).await?.take(&sent[0], 0)
}

/// Asks for objects in a version; at least one is sent.
async fn convert(
    custom: &Custom,
    cache: &Cache,
    objects: &[Bytes],
    version: &str,
) -> Result<Converted, Status> {
    let wanted = api_version(&custom.resource.group, version);
    let from = objects.first().map(|object| version_in(object)).unwrap_or_default();
    let start = format!("conversion webhook for {from}, Kind={}", custom.resource.kind);
    let failed = |why: String| refused(&start, &format!("failed: {why}"));
    let Conversion::Webhook { client, trust } = &custom.crd.conversion else {
        return Err(failed("there is none".to_owned()));
    };
    let target = Target::of_client(cache, client).map_err(failed)?;
    let uid = custom.crd.stored.uid();
    let review = review(uid, &wanted, objects);
    let kind = format!("{}.{}", custom.resource.plural, custom.resource.group);
    let asked = webhook::post(Purpose::Conversion(&kind), (&target, trust), review, WITHIN);
    let answer = asked.await.map_err(failed)?;
    let Review { response } = webhook::parsed(&target, &answer).map_err(failed)?;
    let response = response.unwrap_or_default();
    if response.uid != uid {
        return Err(failed(format!("the answer is to another request: {:?}", response.uid)));
    }
    if response.result.status != "Success" {
        let why = response.result.message;
        return Err(failed(if why.is_empty() { "the webhook gave no reason".to_owned() } else { why }));
    }
    let all = response.converted_objects.map_or("null", RawValue::get);
    let places = converted::places(&answer, all, objects.len()).map_err(failed)?;
    Ok(Converted { answer, places, wanted, start })
}

fn refused(start: &str, why: &str) -> Status {
    Status { code: 500, reason: "".into(), message: format!("{start} {why}"), details: None }
}

/// `apiextensions.k8s.io/v1` ConversionReview, as far as an answer is read.
#[derive(Deserialize)]
struct Review<'a> {
    #[serde(borrow)]
    response: Option<Response<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Response<'a> {
    uid: String,
    result: Outcome,
    #[serde(borrow)]
    converted_objects: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Outcome {
    status: String,
    message: String,
}

/// Bytes of objects that are sent at a time.
const BATCH: usize = 8 << 20;

/// The objects in their order, in lists of bounded size.
fn batches(objects: Vec<Arc<Stored>>) -> Vec<Vec<Arc<Stored>>> {
    let (mut all, mut bytes) = (vec![Vec::new()], 0);
    for object in objects {
        bytes += object.json_len();
        if bytes > BATCH && all.last().is_some_and(|last: &Vec<_>| !last.is_empty()) {
            all.push(Vec::new());
            bytes = object.json_len();
        }
        if let Some(last) = all.last_mut() {
            last.push(object);
        }
    }
    all
}

fn review(uid: &str, wanted: &str, objects: &[Bytes]) -> Bytes {
    let mut out = format!(
        "{{\"kind\":\"ConversionReview\",\"apiVersion\":\"apiextensions.k8s.io/v1\",\"request\":{{\"uid\":{},\"desiredAPIVersion\":{},\"objects\":[",
        json!(uid),
        json!(wanted)
    )
    .into_bytes();
    for (index, object) in objects.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"" } else { b"," });
        out.extend_from_slice(object);
    }
    out.extend_from_slice(b"]}}");
    out.into()
}

/// `apiVersion` of an object's JSON.
fn version_in(object: &[u8]) -> String {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Head {
        api_version: String,
    }
    serde_json::from_slice::<Head>(object).unwrap_or_default().api_version
}

fn stored_version(object: &Stored) -> String {
    let whole = version_in(&object.json());
    whole.rsplit('/').next().unwrap_or_default().to_owned()
}
