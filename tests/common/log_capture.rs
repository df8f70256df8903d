//! What the library logs, caught for the thread that asks.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Once;

use log::{Level, LevelFilter, Log, Metadata, Record};

use super::probes::Trace;
use super::words::error_kind;

type Sink = Rc<dyn Fn(&Record<'_>)>;

thread_local! {
    // One sink a thread: tests run side by side, each on its own thread.
    static SINK: RefCell<Option<Sink>> = const { RefCell::new(None) };
}

struct ThreadLogger;

impl Log for ThreadLogger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "miniloop"
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        // Taken out of the cell first: a sink may run code that logs.
        let sink = SINK.try_with(|sink| sink.borrow().clone()).ok().flatten();
        if let Some(sink) = sink {
            sink(record);
        }
    }

    fn flush(&self) {}
}

/// Catches the log until it is dropped.
pub struct LogCapture {
    before: Option<Sink>,
}

impl Drop for LogCapture {
    fn drop(&mut self) {
        SINK.set(self.before.take());
    }
}

/// Hands every record the library logs on this thread to `sink`.
#[must_use = "the capture ends when this is dropped"]
pub fn capture_log(sink: impl Fn(&Record<'_>) + 'static) -> LogCapture {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        log::set_logger(&ThreadLogger).expect("the only logger of the test process");
        log::set_max_level(LevelFilter::Trace);
    });
    LogCapture {
        before: SINK.replace(Some(Rc::new(sink))),
    }
}

/// Writes the warnings and errors the loop logs to the trace:
/// `log:LEVEL:KIND` or `log:LEVEL:KIND:ERROR`.
#[must_use = "the capture ends when this is dropped"]
pub fn logged(trace: &Trace) -> LogCapture {
    let trace = trace.clone();
    capture_log(move |record| {
        if record.level() > Level::Warn {
            return;
        }
        let level = record.level().as_str().to_lowercase();
        let text = record.args().to_string();
        // The default handler writes "message: error".
        trace.push(match text.split_once(": ") {
            Some((message, error)) => format!("log:{level}:{}:{error}", error_kind(message)),
            None => format!("log:{level}:{}", error_kind(&text)),
        });
    })
}
