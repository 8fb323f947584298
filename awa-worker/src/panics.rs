//! Panics of user code, turned into values.
//!
//! A handler that panics fails its attempt and nothing else. The message comes with the payload; where it happened is
//! known only to the panic hook, so the first worker of a process puts a hook in front of the one that is there: it
//! notes the place if the panic is one that we are about to catch, and calls the previous hook in any case.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;

thread_local! {
    /// How many [`catch`] calls this thread is inside of.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Where the panic happened that is now unwinding to the nearest [`catch`].
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A panic that was caught: its message, and its place where the hook saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Panic {
    message: String,
    place: Option<String>,
}

impl fmt::Display for Panic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(formatter, "panicked at {place}: {}", self.message),
            None => write!(formatter, "panicked: {}", self.message),
        }
    }
}

/// Puts the noting hook in place, once a process.
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if DEPTH.with(Cell::get) > 0 {
                let place = info.location().map(ToString::to_string);
                PLACE.with(|slot| *slot.borrow_mut() = place);
            }
            previous(info);
        }));
    });
}

/// Calls `body`, and returns its panic as a value if it has one.
pub(crate) fn catch<T>(body: impl FnOnce() -> T + UnwindSafe) -> Result<T, Panic> {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    let answer = panic::catch_unwind(body);
    DEPTH.with(|depth| depth.set(depth.get() - 1));
    answer.map_err(|payload| {
        let message = message_of(payload.as_ref());
        discard(payload);
        Panic { message, place: PLACE.with(|slot| slot.borrow_mut().take()) }
    })
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a value that is not a text".to_owned()
    }
}

/// Drops a payload, whose own `Drop` may panic as well: what that panic carries is leaked rather than trusted.
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(second) = panic::catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}

/// Drops a value of user code; a panic in its `Drop` is logged and goes no further.
pub(crate) fn drop_quietly<T>(value: T) {
    if let Err(panic) = catch(AssertUnwindSafe(|| drop(value))) {
        tracing::error!(%panic, "dropping what a handler left behind panicked");
    }
}

/// A future of user code whose panics, in `poll` or in `Drop`, are values.
pub(crate) struct CatchPanic<'a, T>(Option<BoxFuture<'a, T>>);

impl<'a, T> CatchPanic<'a, T> {
    pub(crate) fn new(inner: BoxFuture<'a, T>) -> Self {
        Self(Some(inner))
    }
}

impl<T> Future for CatchPanic<'_, T> {
    type Output = Result<T, Panic>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let inner = self.0.as_mut().expect("not polled after it was ready");
        let polled = catch(AssertUnwindSafe(|| inner.as_mut().poll(context)));
        let answer = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(value)) => Ok(value),
            Err(panic) => Err(panic),
        };
        drop_quietly(self.0.take());
        Poll::Ready(answer)
    }
}

impl<T> Drop for CatchPanic<'_, T> {
    fn drop(&mut self) {
        if let Some(inner) = self.0.take() {
            drop_quietly(inner);
        }
    }
}

#[cfg(test)]
mod tests;
