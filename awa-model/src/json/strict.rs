//! A serializer around serde_json's that refuses what the database or a reader would refuse. serde_json writes NaN as
//! `null`, so looking at the text afterwards is too late.
//!
//! The place of a fault is put together on the way out: each level adds its own key to an error that passes through. So a
//! value without faults pays for none of it.

mod forward;

use std::{cell::RefCell, fmt::Write as _, io};

use serde::ser::{Serialize, Serializer};

use super::InvalidJson;
use crate::limits;

/// Writes `value` into `inner`, or says what is wrong with it and where.
pub(super) fn write<T, W>(
    root: &'static str,
    value: &T,
    inner: &mut serde_json::Serializer<W>,
) -> Result<(), InvalidJson>
where
    T: Serialize + ?Sized,
    W: io::Write,
{
    let fault = RefCell::new(Fault::default());
    let context = Context { fault: &fault, depth: 0 };
    let Err(source) = value.serialize(Strict { inner, context }) else {
        return Ok(());
    };
    let Fault { what, steps } = fault.into_inner();
    Err(match what {
        Some(What::Nul) => InvalidJson::Nul { path: render(root, &steps) },
        Some(What::NotFinite) => InvalidJson::NotFinite { path: render(root, &steps) },
        Some(What::TooDeep) => InvalidJson::TooDeep { root, max: limits::JSON_DEPTH_MAX },
        None => InvalidJson::Unserializable { root, source },
    })
}

#[derive(Clone, Copy)]
enum What {
    Nul,
    NotFinite,
    TooDeep,
}

enum Step {
    Key(String),
    Index(usize),
}

/// What went wrong and the way to it, innermost step first.
#[derive(Default)]
struct Fault {
    what: Option<What>,
    steps: Vec<Step>,
}

/// `args`, then `.key` or `["odd key"]` or `[index]` for each step.
fn render(root: &str, steps: &[Step]) -> String {
    let is_plain = |key: &str| {
        !key.is_empty() && key.chars().all(|character| character.is_alphanumeric() || "_-$".contains(character))
    };
    let mut path = root.to_owned();
    for step in steps.iter().rev() {
        let written = match step {
            Step::Key(key) if is_plain(key) => write!(path, ".{key}"),
            Step::Key(key) => write!(path, "[{key:?}]"),
            Step::Index(index) => write!(path, "[{index}]"),
        };
        debug_assert!(written.is_ok(), "a String takes everything");
    }
    path
}

/// Where a serializer stands: how deep, and where to note a fault.
#[derive(Clone, Copy)]
struct Context<'f> {
    fault: &'f RefCell<Fault>,
    depth: usize,
}

impl<'f> Context<'f> {
    fn refuse<T, E: serde::ser::Error>(self, what: What) -> Result<T, E> {
        self.fault.borrow_mut().what = Some(what);
        Err(E::custom("refused"))
    }

    fn check_text<E: serde::ser::Error>(self, text: &str) -> Result<(), E> {
        if text.contains('\0') { self.refuse(What::Nul) } else { Ok(()) }
    }

    /// The context of what is inside an array or object that begins here.
    fn enter<E: serde::ser::Error>(self) -> Result<Self, E> {
        if self.depth == limits::JSON_DEPTH_MAX {
            return self.refuse(What::TooDeep);
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }

    /// Adds a step to the way of an error that passes through.
    fn at<T, E>(self, step: impl FnOnce() -> Step, result: Result<T, E>) -> Result<T, E> {
        if result.is_err() {
            self.fault.borrow_mut().steps.push(step());
        }
        result
    }

    fn wrap<'a, T: ?Sized>(self, value: &'a T) -> Inside<'a, T>
    where
        'f: 'a,
    {
        Inside { value, context: self }
    }
}

/// The serializer that checks.
struct Strict<'f, S> {
    inner: S,
    context: Context<'f>,
}

/// A value on its way to the inner serializer, which will hand it a serializer of its own to be wrapped again.
struct Inside<'a, T: ?Sized> {
    value: &'a T,
    context: Context<'a>,
}

impl<T: Serialize + ?Sized> Serialize for Inside<'_, T> {
    fn serialize<S: Serializer>(&self, inner: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(Strict { inner, context: self.context })
    }
}
