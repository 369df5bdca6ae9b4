//! How large a pattern becomes once it is compiled, told from its tree before anything is compiled. Pure.
//!
//! In: a pattern as the `regex` crate reads it. Out: about how many places its compiled form has. Reading the tree takes as long as the
//! pattern is; compiling it takes as long as this number is, which a few letters can make millions.

use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{
    Ast, ClassSet, ClassSetItem, Flag, FlagsItemKind, GroupKind, Repetition, RepetitionKind, RepetitionRange,
};

/// Places of a class that names letters of all scripts: `\pL` has this many, few have more.
const SCRIPTS: u64 = 300;
/// How many times as long it takes to add what differs in case alone to such a class.
const FOLDED: u64 = 5;
/// Places of a class, or of `.`, that takes letters of any length in bytes.
const ANY: u64 = 8;
/// From so many letters on a range is one of many scripts.
const WIDE: u32 = 1_000;

/// The places of the pattern's compiled form; `None` where it cannot be read, which compiling it tells in words.
pub(super) fn places(pattern: &str) -> Option<u64> {
    let tree = Parser::new().parse(pattern).ok()?;
    Some(Look { folds: folds(&tree) }.places(&tree).saturating_add(1))
}

/// Whether any part of the pattern asks for letters of either case.
fn folds(tree: &Ast) -> bool {
    let asks = |items: &[regex_syntax::ast::FlagsItem]| {
        items.iter().any(|item| item.kind == FlagsItemKind::Flag(Flag::CaseInsensitive))
    };
    match tree {
        Ast::Flags(set) => asks(&set.flags.items),
        Ast::Group(group) => {
            let own = matches!(&group.kind, GroupKind::NonCapturing(flags) if asks(&flags.items));
            own || folds(&group.ast)
        }
        Ast::Repetition(of) => folds(&of.ast),
        Ast::Alternation(of) => of.asts.iter().any(folds),
        Ast::Concat(of) => of.asts.iter().any(folds),
        _ => false,
    }
}

struct Look {
    folds: bool,
}

impl Look {
    /// The parser bounds how deep a tree is.
    fn places(&self, tree: &Ast) -> u64 {
        match tree {
            Ast::Empty(_) | Ast::Flags(_) => 0,
            // In either case some letters of one byte are of more.
            Ast::Literal(_) if self.folds => 4,
            Ast::Literal(one) => u64::try_from(one.c.len_utf8()).unwrap_or(4),
            Ast::Dot(_) | Ast::ClassPerl(_) => ANY,
            Ast::Assertion(_) => 1,
            Ast::ClassUnicode(_) => self.scripts(),
            Ast::ClassBracketed(class) => {
                let own = if class.negated || self.folds { ANY } else { 1 };
                self.set(&class.kind).saturating_add(own)
            }
            Ast::Repetition(of) => self.repeated(of),
            Ast::Group(group) => self.places(&group.ast).saturating_add(2),
            Ast::Alternation(of) => self.all(&of.asts).saturating_add(1),
            Ast::Concat(of) => self.all(&of.asts),
        }
    }

    fn all(&self, trees: &[Ast]) -> u64 {
        trees.iter().fold(0, |sum, tree| sum.saturating_add(self.places(tree)))
    }

    fn scripts(&self) -> u64 {
        if self.folds { SCRIPTS * FOLDED } else { SCRIPTS }
    }

    fn repeated(&self, of: &Repetition) -> u64 {
        let times = match &of.op.kind {
            RepetitionKind::Range(RepetitionRange::Exactly(times)) => *times,
            RepetitionKind::Range(RepetitionRange::AtLeast(least)) => least.saturating_add(1),
            RepetitionKind::Range(RepetitionRange::Bounded(_, most)) => *most,
            _ => 1,
        };
        let one = self.places(&of.ast).saturating_add(1);
        one.saturating_mul(u64::from(times.max(1)))
    }

    fn set(&self, set: &ClassSet) -> u64 {
        match set {
            ClassSet::Item(item) => self.item(item),
            ClassSet::BinaryOp(of) => self.set(&of.lhs).saturating_add(self.set(&of.rhs)),
        }
    }

    fn item(&self, item: &ClassSetItem) -> u64 {
        match item {
            ClassSetItem::Empty(_) | ClassSetItem::Ascii(_) => 0,
            // Of one byte: they are one place together.
            ClassSetItem::Literal(one) if one.c.is_ascii() => 0,
            ClassSetItem::Literal(_) => 3,
            ClassSetItem::Range(range) => {
                let letters = u32::from(range.end.c).saturating_sub(u32::from(range.start.c));
                match (range.end.c.is_ascii(), self.folds && letters > WIDE) {
                    (true, _) => 0,
                    (false, false) => ANY,
                    (false, true) => self.scripts(),
                }
            }
            ClassSetItem::Perl(_) => ANY,
            ClassSetItem::Unicode(_) => self.scripts(),
            ClassSetItem::Bracketed(class) => self.set(&class.kind),
            ClassSetItem::Union(of) => {
                of.items.iter().fold(0, |sum, item| sum.saturating_add(self.item(item)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_repeated_counts_as_often_as_it_is() {
        for (pattern, least, most) in [
            ("", 1, 1),
            ("abc", 3, 10),
            ("a{1000}", 1_000, 2_500),
            ("(((a{1,1000}){1,1000}){1,1000})", 1_000_000_000, u64::MAX),
            (r"\pL{35}", 10_000, 12_000),
            (r"(?i)\pL{35}", 50_000, 60_000),
            (r"[\pL\pN]{10}", 6_000, 7_000),
            ("[a-z0-9]([-a-z0-9]*[a-z0-9])?", 5, 20),
            ("^([0-9]+(ms|s|m|h))+$", 12, 30),
            (r"(?i)[\x{0}-\x{10ffff}]", 1_000, 2_000),
        ] {
            let places = places(pattern).unwrap();
            assert!((least..=most).contains(&places), "{pattern}: {places}");
        }
        assert_eq!(places("a("), None);
    }
}
