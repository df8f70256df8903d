//! Pages about one subject each. There is no code in here.

#[doc = include_str!("docs/cancellation.md")]
pub mod cancellation {}
