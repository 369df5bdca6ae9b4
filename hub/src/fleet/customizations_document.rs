//! What agents are told of customizations: one document for all of them, told whenever it changed.
//!
//! In: the customizations there are and the kinds of which a webhook is asked what sites report, and the word that some changed. Out: the document,
//! to the gateway. Several changes in a row are one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use karmada_controllers::controller_context::ControllerContext;
use karmada_gateway::Gateway;
use karmada_gateway::session::Document;
use karmada_proto::BODY_LIMIT;
use karmada_proto::v1::Table;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Changes that come together are told together.
const DEBOUNCE: Duration = Duration::from_millis(200);

/// Where there are webhooks, which kinds they are asked of depends on what is placed: it is looked at this often.
const KINDS_LOOKED_AT: Duration = Duration::from_secs(5);

/// Tells agents of customizations until `stop`. `shared` has taken in what there is.
pub async fn tell(shared: Arc<ControllerContext>, gateway: Arc<Gateway>, stop: CancellationToken) {
    let changed = Arc::new(Notify::new());
    let notified = changed.clone();
    shared.customizations.listen(move |_| notified.notify_one());
    let notified = changed.clone();
    shared.webhook_configurations.listen(move |_| notified.notify_one());
    let mut told = None;
    loop {
        let webhooks = shared.customized.webhooks.any();
        let kinds = if webhooks { shared.bindings.kinds() } else { BTreeSet::new() };
        let kinds = kinds.iter().map(|(api_version, kind)| (api_version.as_str(), kind.as_str())).collect();
        let body = bytes::Bytes::from(shared.customized.at_sites(&kinds));
        if body.len() > BODY_LIMIT {
            tracing::warn!(
                bytes = body.len(),
                limit = BODY_LIMIT,
                "all customizations together are too large for the sites, which go on with those that they have"
            );
        } else {
            let document = Document::new(Table::Customizations, &body);
            if told.as_ref() != Some(&document.hash) {
                told = Some(document.hash.clone());
                gateway.tell(Arc::new(document)).await;
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = changed.notified() => tokio::time::sleep(DEBOUNCE).await,
            () = tokio::time::sleep(KINDS_LOOKED_AT), if webhooks => {}
        }
    }
}
