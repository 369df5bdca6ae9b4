//! Paths into objects, built on the stack while walking and rendered only when something is wrong.
//!
//! In: a step, and the path before it. Out: the text of the path as kube-apiserver's errors, Go's decoders or JSON pointers write it. Pure.

use std::fmt;

/// One step.
#[derive(Clone, Copy, Debug)]
pub enum Segment<'a> {
    /// A struct field: `.name`.
    Field(&'a str),
    /// A map key: `[key]`.
    Key(&'a str),
    /// A list index: `[0]`.
    Index(usize),
    /// A map entry as decoders write it: `.key`, though it is no field.
    Entry(&'a str),
    /// Structs that Go embeds and JSON does not show: told by decoders alone.
    Embedded(&'a str),
}

/// A path: a step and the path before it.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    segment: Option<Segment<'a>>,
}

impl<'a> Path<'a> {
    /// The object itself.
    pub const ROOT: Path<'static> = Path { parent: None, segment: None };

    /// A path of one field.
    pub fn field(name: &'a str) -> Path<'a> {
        Path { parent: None, segment: Some(Segment::Field(name)) }
    }

    /// This path and a field.
    pub fn child(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), segment: Some(Segment::Field(name)) }
    }

    /// This path and a map key.
    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), segment: Some(Segment::Key(key)) }
    }

    /// This path and a list index.
    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path { parent: Some(self), segment: Some(Segment::Index(index)) }
    }

    /// This path and a map entry, as decoders write it.
    pub fn entry(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), segment: Some(Segment::Entry(key)) }
    }

    /// This path and the structs that Go embeds there.
    pub fn embedded(&'a self, names: &'a str) -> Path<'a> {
        Path { parent: Some(self), segment: Some(Segment::Embedded(names)) }
    }

    /// The path before this one, as JSON has it.
    fn shown_parent(&self) -> Option<&'a Path<'a>> {
        let parent = self.parent?;
        match parent.segment {
            Some(Segment::Embedded(_)) => parent.shown_parent(),
            _ => Some(parent),
        }
    }

    /// Whether this is the object itself.
    pub fn is_root(&self) -> bool {
        self.segment.is_none()
    }

    /// The path as a JSON pointer.
    pub fn pointer(&self) -> String {
        let before = self.parent.map(Path::pointer).unwrap_or_default();
        match self.segment {
            None | Some(Segment::Embedded(_)) => before,
            Some(Segment::Index(index)) => format!("{before}/{index}"),
            Some(Segment::Field(name) | Segment::Key(name) | Segment::Entry(name)) => {
                format!("{before}/{}", name.replace('~', "~0").replace('/', "~1"))
            }
        }
    }

    /// The fields alone and what embeds them, joined by dots, as a Go decoder's error gives them.
    pub fn fields(&self) -> String {
        let mut out = self.parent.map(Path::fields).unwrap_or_default();
        if let Some(Segment::Field(name) | Segment::Embedded(name)) = self.segment {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(name);
        }
        out
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parent = self.shown_parent().filter(|parent| !parent.is_root());
        if let Some(parent) = parent {
            parent.fmt(f)?;
        }
        match self.segment {
            None | Some(Segment::Embedded(_)) => Ok(()),
            Some(Segment::Field(name) | Segment::Entry(name)) if parent.is_none() => f.write_str(name),
            Some(Segment::Field(name) | Segment::Entry(name)) => write!(f, ".{name}"),
            Some(Segment::Key(key)) => write!(f, "[{key}]"),
            Some(Segment::Index(index)) => write!(f, "[{index}]"),
        }
    }
}
