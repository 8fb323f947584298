//! The macros of the Awa job queue. Use them through `awa_worker`, which exports them beside the traits.

mod case;
mod debug_handler;
mod duration;
mod error;
mod expand;
mod fields;
mod parse;
mod unique;
mod validate;

use proc_macro::TokenStream;

/// Makes a type the arguments of a job.
///
/// The type also needs serde's `Serialize` and `Deserialize`, since args are stored as JSON. It must not be generic: a kind
/// is one type.
///
/// ```
/// use awa_macros::JobArgs;
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Thumbnail;
///
/// #[derive(serde::Serialize, serde::Deserialize, JobArgs)]
/// #[job(queue = "images", max_attempts = 5, timeout = "2m", unique(args), output = Thumbnail)]
/// # #[job(crate = "awa_model")]
/// struct ResizeImage {
///     path: String,
///     width: u32,
/// }
/// ```
///
/// Everything in `#[job(…)]` is optional:
///
/// | Key | Means | Default |
/// |---|---|---|
/// | `kind = "resize_image"` | the name by which workers find the handler; 1 to 128 bytes without control characters. Keep it when the type is renamed | the type's name in snake case |
/// | `queue = "images"` | the queue; the same rule | `"default"` |
/// | `priority = 1` | urgency in the queue: 1 (first) to 4 (last) | 2 |
/// | `max_attempts = 5` | how often it is tried: 1 to 1000 | 25 |
/// | `timeout = "2m"` | how long one attempt may take, up to ten years; units ms, s, m, h, d, as in `"1h30m"` | no limit |
/// | `output = Thumbnail` | what the job produces | `()` |
/// | `tags("mail", "billing")` | tags that each of them gets, by which people find them; at most 32 | none |
/// | `aliases("resize", …)` | kinds that the same handler also runs, such as one from before a rename | none |
/// | `unique(…)` | which other job makes a new one superfluous; see below | none does |
/// | `crate = "path"` | where Awa's items are | `"::awa_worker"` |
///
/// `unique` alone means `unique(args)`: no second job with the same args until the first is completed, failed or cancelled.
/// Inside the parentheses:
///
/// | Key | Means |
/// |---|---|
/// | `args` | all args are compared (the default) |
/// | `args(path, "page-size")` | only these fields are; a string is a name as it is in JSON |
/// | `no_args` | none are: all jobs of the kind are alike |
/// | `queue` | jobs in different queues are different |
/// | `period = "1h"` | jobs due in different periods are different, and a completed job counts too |
/// | `while_waiting` | a job counts only until it runs |
/// | `states(available, running)` | a job counts in just these states; available has to be there where running is |
/// | `on_conflict = "replace"` | what becomes of the new job: `"skip"` (the default), `"replace"` (the other one takes its args and due time, if it still waits) or `"error"` |
///
/// All mistakes are reported at once, each at its place.
#[proc_macro_derive(JobArgs, attributes(job))]
pub fn derive_job_args(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    expand::derive_job_args(&input).into()
}

/// Explains what is wrong with a handler, at the part of it that is wrong.
///
/// A function that is no handler is refused where it is registered, by a message about all of it. Under this attribute each
/// part is checked by itself: that it is an `async fn`, its args, what it takes after them, what it returns, and that its
/// future may move between threads. The attribute changes nothing and leaves nothing in the program, so it may stay.
///
/// ```text
/// #[awa_worker::debug_handler]
/// async fn resize(job: ResizeImage, store: Data<Store>) -> Result<Thumbnail, JobError> { … }
/// ```
///
/// Generic functions and methods cannot be checked, and neither can an implementation of `Worker`, where the
/// compiler says as much by itself.
#[proc_macro_attribute]
pub fn debug_handler(attributes: TokenStream, item: TokenStream) -> TokenStream {
    debug_handler::debug_handler(&attributes.into(), &item.into()).into()
}
