//! What agents are told of customizations: one document for all of them, told whenever it changed.
//!
//! In: the customizations there are, and the word that some changed. Out: the document, to the gateway. Several changes in a row are one.

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
const SETTLE: Duration = Duration::from_millis(200);

/// Tells agents of customizations until `stop`. `shared` has taken in what there is.
pub async fn tell(shared: Arc<ControllerContext>, gateway: Arc<Gateway>, stop: CancellationToken) {
    let changed = Arc::new(Notify::new());
    let notified = changed.clone();
    shared.customizations.listen(move |_| notified.notify_one());
    let mut told = None;
    loop {
        let body = bytes::Bytes::from(shared.customized.at_sites());
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
            () = changed.notified() => tokio::time::sleep(SETTLE).await,
        }
    }
}
