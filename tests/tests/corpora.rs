//! The fuzz targets on every input that is kept (`tests/fuzz/corpus`): what broke a promise once never does again. Each in bounded
//! time, on a thread with the stack that the hub's own threads have.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]
// The targets panic where a promise is broken.
#![allow(clippy::expect_used, missing_docs)]

#[path = "../fuzz/targets.rs"]
mod targets;

use std::path::Path;
use std::time::Duration;

/// Far above what any input takes, also in a build without optimisation.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn kept_inputs_break_no_promise() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (name, target) in targets::ALL {
        let mut inputs = 0;
        for entry in std::fs::read_dir(corpus.join(name)).expect("every target has its folder") {
            let path = entry.expect("the folder can be read").path();
            let data = std::fs::read(&path).expect("an input can be read");
            let (done, is_done) = std::sync::mpsc::channel();
            let task = std::thread::Builder::new().stack_size(2 << 20).spawn(move || {
                target(&data);
                let _ = done.send(());
            });
            match is_done.recv_timeout(PATIENCE) {
                Ok(()) => {}
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                    panic!("{} takes too long", path.display())
                }
                Err(_) => {
                    let _ = task.expect("a thread can be started").join();
                    panic!("{} breaks a promise of {name}", path.display());
                }
            }
            inputs += 1;
        }
        assert!(inputs > 3, "{name} has {inputs} inputs");
    }
}
