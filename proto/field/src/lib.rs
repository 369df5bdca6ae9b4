//! What is wrong with a field, said in kube-apiserver's words: paths, errors, and what names may look like.
//!
//! In: a path and a value. Out: [`FieldError`]s, which read as `k8s.io/apimachinery/pkg/util/validation/field` writes them, and the
//! messages of its rules about names ([`names`]). Whoever refuses an object, of Kubernetes' kinds or of the fleet's, says so with these.
//! Beside them, what both need: moments as the API writes them ([`time`]).

mod error;
pub mod names;
pub mod path;
pub mod time;

pub use error::{ErrorType, FieldError, Shown};
pub use error::{go_json, go_struct, is_printable, quote, quote_list, render};
