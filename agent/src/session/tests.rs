//! The session against hand-made frames.
