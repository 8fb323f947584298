//! All statements of the Awa job queue. Being laid out.

pub mod schema;
#[cfg(feature = "testing")]
pub mod testing;
