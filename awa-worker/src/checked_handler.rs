//! What `#[debug_handler]` asks of a handler, one question each, so that each has an answer of its own.
//!
//! The macro writes calls of these functions into a function that nobody calls: the compiler checks them, and nothing is
//! left of them in the program.
//!
//! What is right passes, and each of the others differs from it in one thing:
//!
//! ```
//! # use awa_worker::{Data, JobArgs, JobError, debug_handler};
//! # #[derive(serde::Serialize, serde::Deserialize, JobArgs)]
//! # #[job(output = u32)]
//! # struct Resize { width: u32 }
//! #[debug_handler]
//! async fn resize(job: Resize, number: Data<u32>) -> Result<u32, JobError> {
//!     Ok(job.width * *number)
//! }
//! ```
//!
//! Args that are none.
//!
//! ```compile_fail
//! # use awa_worker::{Data, JobArgs, JobError, debug_handler};
//! # #[derive(serde::Serialize, serde::Deserialize, JobArgs)]
//! # #[job(output = u32)]
//! # struct Resize { width: u32 }
//! #[debug_handler]
//! async fn resize(job: u32, number: Data<u32>) -> Result<u32, JobError> {
//!     Ok(job * *number)
//! }
//! ```
//!
//! Something that cannot be taken.
//!
//! ```compile_fail
//! # use awa_worker::{Data, JobArgs, JobError, debug_handler};
//! # #[derive(serde::Serialize, serde::Deserialize, JobArgs)]
//! # #[job(output = u32)]
//! # struct Resize { width: u32 }
//! #[debug_handler]
//! async fn resize(job: Resize, number: u32) -> Result<u32, JobError> {
//!     Ok(job.width * number)
//! }
//! ```
//!
//! No `Result`.
//!
//! ```compile_fail
//! # use awa_worker::{Data, JobArgs, JobError, debug_handler};
//! # #[derive(serde::Serialize, serde::Deserialize, JobArgs)]
//! # #[job(output = u32)]
//! # struct Resize { width: u32 }
//! #[debug_handler]
//! async fn resize(job: Resize, number: Data<u32>) -> u32 {
//!     job.width * *number
//! }
//! ```
//!
//! Another output than that of the args.
//!
//! ```compile_fail
//! # use awa_worker::{Data, JobArgs, JobError, debug_handler};
//! # #[derive(serde::Serialize, serde::Deserialize, JobArgs)]
//! # #[job(output = u32)]
//! # struct Resize { width: u32 }
//! #[debug_handler]
//! async fn resize(job: Resize, number: Data<u32>) -> Result<String, JobError> {
//!     Ok((job.width * *number).to_string())
//! }
//! ```
//!
//! An error that is none.
//!
//! ```compile_fail
//! # use awa_worker::{Data, JobArgs, JobError, debug_handler};
//! # #[derive(serde::Serialize, serde::Deserialize, JobArgs)]
//! # #[job(output = u32)]
//! # struct Resize { width: u32 }
//! #[debug_handler]
//! async fn resize(job: Resize, number: Data<u32>) -> Result<u32, [u8; 3]> {
//!     Ok(job.width * *number)
//! }
//! ```
//!
//! A future that has to stay on its thread.
//!
//! ```compile_fail
//! # use awa_worker::{Data, JobArgs, JobError, debug_handler};
//! # #[derive(serde::Serialize, serde::Deserialize, JobArgs)]
//! # #[job(output = u32)]
//! # struct Resize { width: u32 }
//! #[debug_handler]
//! async fn resize(job: Resize, number: Data<u32>) -> Result<u32, JobError> {
//!     let shared = std::rc::Rc::new(*number);
//!     std::future::ready(()).await;
//!     Ok(job.width * *shared)
//! }
//! ```

use std::future::Future;
use std::marker::PhantomData;

use awa_model::{IntoOutcome, JobArgs};

use crate::error::JobError;
use crate::handler::FromContext;

/// The first parameter. Answers its output, which the result is measured by.
#[must_use]
pub fn args<A: JobArgs>() -> Output<A::Output> {
    Output(PhantomData)
}

/// What a job produces, as a type.
#[derive(Debug)]
pub struct Output<T>(PhantomData<T>);

impl<T> Output<T> {
    /// What is returned in `Ok`.
    pub fn ok<R: HandlerResult<Ok: IntoOutcome<T>>>(self) {}
}

/// Every other parameter.
pub fn extractor<T: FromContext>() {}

/// The return type as a whole.
pub fn result<R: HandlerResult>() {}

/// What is returned in `Err`.
pub fn error<R: HandlerResult<Err: Into<JobError>>>() {}

/// The future.
pub fn sent<F: Future + Send>(_: F) {}

/// A value of any type, for calls that are never made.
#[must_use]
pub fn any<T>() -> T {
    unreachable!("only the compiler looks at this")
}

/// A `Result`, under whatever name.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "not a `Result<R, E>`",
    note = "a handler returns `Result<R, E>`: `R` the output of the args or an `Outcome` of it, `E` any error"
)]
pub trait HandlerResult {
    /// What is in `Ok`.
    type Ok;
    /// What is in `Err`.
    type Err;
}

impl<R, E> HandlerResult for Result<R, E> {
    type Ok = R;
    type Err = E;
}
