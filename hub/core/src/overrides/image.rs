//! Image names, and changes of their parts. In: a manifest, and an overrider. Out: the manifest with other image names, or words that say
//! that its path leads to none. Pure.

use karmada_api::override_policy::{ImageComponent, ImageOverrider, Operator};
use serde_json::Value;

use super::containers::containers;

/// The parts of `registry/repository:tag` or `registry/repository@digest`. An image with both tag and digest keeps
/// the tag only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Image {
    registry: String,
    repository: String,
    /// Tag or digest, with its separator (`:` or `@`).
    suffix: String,
}

impl Image {
    fn parse(text: &str) -> Self {
        let (name, digest) = text.split_once('@').map_or((text, None), |(name, digest)| (name, Some(digest)));
        let last = name.rfind('/').map_or(0, |slash| slash + 1);
        let (name, tag) = match name[last..].find(':') {
            Some(colon) => (&name[..last + colon], Some(&name[last + colon + 1..])),
            None => (name, None),
        };
        // The first part is a registry only if it looks like a host.
        let (registry, repository) = match name.split_once('/') {
            Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => (host, rest),
            _ => ("", name),
        };
        let suffix = match (tag, digest) {
            (Some(tag), _) => format!(":{tag}"),
            (None, Some(digest)) => format!("@{digest}"),
            (None, None) => String::new(),
        };
        Self { registry: registry.to_owned(), repository: repository.to_owned(), suffix }
    }

    fn write(&self) -> String {
        let slash = if self.registry.is_empty() { "" } else { "/" };
        format!("{}{slash}{}{}", self.registry, self.repository, self.suffix)
    }

    /// Sets tag or digest; a text that is neither is ignored.
    fn set_suffix(&mut self, text: &str) {
        if is_tag(text) {
            self.suffix = format!(":{text}");
        } else if is_digest(text) {
            self.suffix = format!("@{text}");
        }
    }

    fn change(&mut self, overrider: &ImageOverrider) {
        let value = &overrider.value;
        let change = |part: &mut String| match overrider.operator {
            Operator::Add => part.push_str(value),
            Operator::Replace => part.clone_from(value),
            Operator::Remove => part.clear(),
        };
        match (overrider.component, overrider.operator) {
            (ImageComponent::Registry, _) => change(&mut self.registry),
            (ImageComponent::Repository, _) => change(&mut self.repository),
            (ImageComponent::Tag, Operator::Remove) => self.suffix.clear(),
            (ImageComponent::Tag, Operator::Replace) => self.set_suffix(value),
            (ImageComponent::Tag, Operator::Add) => {
                let longer = format!("{}{value}", self.suffix.get(1..).unwrap_or(""));
                self.set_suffix(&longer);
            }
        }
    }
}

/// `[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}`
fn is_tag(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|b| word(*b))
        && bytes.len() <= 128
        && bytes.iter().all(|b| word(*b) || matches!(b, b'.' | b'-'))
}

/// `algorithm:hex`, at least 32 digits.
fn is_digest(text: &str) -> bool {
    text.split_once(':').is_some_and(|(algorithm, hex)| {
        algorithm.starts_with(|c: char| c.is_ascii_alphabetic())
            && algorithm.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '_' | '-'))
            && hex.len() >= 32
            && hex.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

fn changed(text: &str, overrider: &ImageOverrider) -> Value {
    let mut image = Image::parse(text);
    image.change(overrider);
    Value::from(image.write())
}

/// Changes the image at the predicate's path, or those of all containers of a known workload.
///
/// # Errors
/// The path leads nowhere, or not to a text.
pub fn apply(manifest: &mut Value, overrider: &ImageOverrider) -> Result<(), String> {
    if let Some(predicate) = &overrider.predicate {
        let path = &predicate.path;
        let image = manifest.pointer_mut(path).ok_or_else(|| format!("there is no image at {path}"))?;
        let text = image.as_str().ok_or_else(|| format!("what is at {path} is no text"))?;
        *image = changed(text, overrider);
        return Ok(());
    }
    for container in containers(manifest) {
        if let Some(text) = container.get("image").and_then(Value::as_str) {
            let image = changed(text, overrider);
            container.insert("image".to_owned(), image);
        }
    }
    Ok(())
}
