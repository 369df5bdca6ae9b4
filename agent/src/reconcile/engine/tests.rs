//! The engine against a member in memory.
