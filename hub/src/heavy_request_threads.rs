//! Two sets of threads for connections: one by which everybody is served, and one of a lower priority for the connections that have
//! heavy requests under way just now.
//!
//! In: connections as futures, each with the count of its heavy requests. Out: the same futures, run to their end, each on the threads
//! that fit it at the moment. What is promised: however many long lists are made, compressed, encrypted and sent, and however
//! much one client asks for at once, a light request on another connection finds a thread that is free, or soon is.
//!
//! A future may change its executor between two polls: its sockets and timers belong to the runtime that made them, which wakes
//! it wherever it is.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use karmada_apiserver::http::HeavyRequests;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// How nice the heavy lane's threads are: a tenth of the share of the others, where both have work.
#[cfg(target_os = "linux")]
const GIVES_WAY: i32 = 10;

/// A connection that was heavy is taken to be so for a while: what floods is kept off the prompt lane between two requests, too.
pub const STAY: Duration = Duration::from_millis(500);

/// Both sets of threads. Dropped, what still runs on the second one is cut.
pub struct Lanes {
    prompt: Handle,
    heavy: Option<Runtime>,
    stay: Duration,
}

type Connection = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Lanes {
    /// The prompt lane is the runtime that this is called on; the heavy one has half as many threads, and whoever was heavy stays
    /// for `stay`. Half: a kernel may let a thread of any priority finish its slice before one that wakes, which is 4 ms on many;
    /// who wakes finds a core without heavy work where there is more than one.
    ///
    /// # Errors
    /// Threads cannot be started.
    pub fn new(stay: Duration) -> std::io::Result<Arc<Lanes>> {
        let prompt = Handle::current();
        let heavy = Builder::new_multi_thread()
            .worker_threads((prompt.metrics().num_workers() / 2).max(1))
            .thread_name("heavy-requests")
            .on_thread_start(give_way)
            // As on the prompt lane.
            .max_blocking_threads(1024)
            // Its own sockets, too: a request may call out, to a webhook or another API server, from wherever it is.
            .enable_all()
            .build()?;
        Ok(Arc::new(Lanes { prompt, heavy: Some(heavy), stay }))
    }

    /// Runs a connection, or one of its streams, to its end.
    pub fn run(
        self: &Arc<Self>,
        tracker: &TaskTracker,
        load: HeavyRequests,
        connection: impl Future<Output = ()> + Send + 'static,
    ) {
        let leg = Leg { connection: Some(Box::pin(connection)), until: None, stay: self.stay, load };
        self.clone().leg(tracker, leg);
    }

    fn leg(self: Arc<Self>, tracker: &TaskTracker, leg: Leg) {
        let lane =
            self.heavy.as_ref().filter(|_| leg.until.is_some()).map_or(&self.prompt, Runtime::handle).clone();
        let (lanes, tracked) = (self, tracker.clone());
        tracker.spawn_on(
            async move {
                if let Some(next) = leg.await {
                    lanes.leg(&tracked, next);
                }
            },
            &lane,
        );
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        if let Some(heavy) = self.heavy.take() {
            // The other way of ending waits, which an async caller may not.
            heavy.shutdown_background();
        }
    }
}

/// A connection's stay on one lane.
struct Leg {
    /// Taken when it moves.
    connection: Option<Connection>,
    /// On the heavy lane: until when it stays there at least.
    until: Option<Instant>,
    stay: Duration,
    load: HeavyRequests,
}

impl Leg {
    /// Until when it is heavy, as things stand.
    fn heavy_until(&self) -> Option<Instant> {
        let is_heavy = self.load.any();
        if !is_heavy && self.until.is_none() {
            return None;
        }
        let now = Instant::now();
        if is_heavy { Some(now + self.stay) } else { self.until.filter(|until| now < *until) }
    }
}

impl Future for Leg {
    /// The next leg; `None` at the connection's end.
    type Output = Option<Leg>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Leg>> {
        let until = self.heavy_until();
        let moves = until.is_some() != self.until.is_some();
        self.until = until;
        if moves {
            let (stay, load) = (self.stay, self.load.clone());
            let next = self.connection.take();
            return Poll::Ready(next.map(|connection| Leg {
                connection: Some(connection),
                until,
                stay,
                load,
            }));
        }
        let Some(connection) = &mut self.connection else { return Poll::Ready(None) };
        ready!(connection.as_mut().poll(context));
        Poll::Ready(None)
    }
}

/// Of the calling thread, which on Linux has a priority of its own.
#[cfg(target_os = "linux")]
fn give_way() {
    if let Err(error) = rustix::process::setpriority_process(None, GIVES_WAY) {
        tracing::debug!(%error, "the threads of heavy requests have the priority of all others");
    }
}

#[cfg(not(target_os = "linux"))]
fn give_way() {}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    fn here() -> (String, i32) {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        (name, rustix::process::getpriority_process(None).unwrap())
    }

    #[tokio::test]
    async fn a_connection_with_a_heavy_request_is_on_threads_that_give_way_while_it_lasts() {
        let lanes = Lanes::new(Duration::ZERO).unwrap();
        let (tracker, load) = (TaskTracker::new(), HeavyRequests::default());
        let (tell, told) = oneshot::channel();
        let requests = load.clone();
        lanes.run(&tracker, load, async move {
            let before = here();
            let heavy = requests.begin();
            tokio::task::yield_now().await;
            let during = here();
            drop(heavy);
            tokio::task::yield_now().await;
            let _ = tell.send((before, during, here()));
        });
        tracker.close();
        tracker.wait().await;
        let (before, during, after) = told.await.unwrap();
        assert_eq!(before, after);
        assert_ne!(before.0, during.0);
        assert_eq!((during.0.as_str(), during.1), ("heavy-requests", before.1 + GIVES_WAY));
    }

    #[tokio::test]
    async fn what_one_asks_for_does_not_move_another_and_timers_go_along() {
        let (lanes, tracker) = (Lanes::new(STAY).unwrap(), TaskTracker::new());
        let (busy, idle) = (HeavyRequests::default(), HeavyRequests::default());
        let _heavy = busy.begin();
        let (tell, told) = oneshot::channel();
        let main = here();
        lanes.run(&tracker, busy, async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let _ = tell.send(here());
        });
        let (tell, other) = oneshot::channel();
        lanes.run(&tracker, idle, async move {
            let _ = tell.send(here());
        });
        assert_eq!(told.await.unwrap().0, "heavy-requests");
        assert_eq!(other.await.unwrap(), main);
    }

    #[tokio::test]
    async fn a_heavy_connection_calls_out() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let lanes = Lanes::new(Duration::from_secs(3600)).unwrap();
        let (tracker, load) = (TaskTracker::new(), HeavyRequests::default());
        let (tell, told) = oneshot::channel();
        let requests = load.clone();
        lanes.run(&tracker, load, async move {
            let _heavy = requests.begin();
            tokio::task::yield_now().await;
            let reached = tokio::net::TcpStream::connect(address).await.is_ok();
            let _ = tell.send((reached, here()));
        });
        let (reached, at) = told.await.unwrap();
        assert!(reached && at.0 == "heavy-requests");
    }

    #[tokio::test]
    async fn who_was_heavy_stays_for_a_while() {
        let lanes = Lanes::new(Duration::from_secs(3600)).unwrap();
        let (tracker, load) = (TaskTracker::new(), HeavyRequests::default());
        let (tell, told) = oneshot::channel();
        let requests = load.clone();
        lanes.run(&tracker, load, async move {
            drop(requests.begin());
            tokio::task::yield_now().await;
            let light = here();
            let heavy = requests.begin();
            tokio::task::yield_now().await;
            drop(heavy);
            tokio::task::yield_now().await;
            let _ = tell.send((light, here()));
        });
        let (light, after) = told.await.unwrap();
        assert_ne!(light.0, "heavy-requests", "what was over before anybody looked");
        assert_eq!(after.0, "heavy-requests");
    }
}
