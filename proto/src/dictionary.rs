//! What bodies of every fleet have in common: a text that both ends have, so that it need not be sent.
//!
//! In: nothing. Out: zstd's dictionary of it, for either direction. A body on its own is mostly names that every body has; with this before
//! it, a Work of one Deployment takes a third of its bytes, a status a fifth, a Cluster's status a tenth.
//!
//! The text is public, the same for all, and never changes: an end that has another one cannot read what was packed. A better one is
//! another feature and another encoding.

use std::sync::LazyLock;

use zstd::dict::{DecoderDictionary, EncoderDictionary};

/// zstd's level: the fastest; Kubernetes JSON shrinks to a third or less even so.
pub(crate) const LEVEL: i32 = 1;

/// Kubernetes' and Karmada's usual objects, what is most usual last.
pub(crate) const TEXT: &[u8] = include_bytes!("dictionary/1.txt");

/// To pack with.
pub(crate) static PACKS: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(TEXT, LEVEL));

/// To unpack with.
pub(crate) static UNPACKS: LazyLock<DecoderDictionary<'static>> =
    LazyLock::new(|| DecoderDictionary::copy(TEXT));
