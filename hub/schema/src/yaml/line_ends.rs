//! The line ends of YAML 1.1 that 1.2 does not know. In: a text. Out: the text with those that both know, but for those in block texts.

use std::borrow::Cow;

/// The text with the line ends of YAML 1.1 alone in those that YAML 1.2 knows too. In quotes only the one is changed that means
/// the same there; JSON has no lines.
pub(super) fn old_line_ends(text: &str) -> Cow<'_, str> {
    const OLD: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];
    if text.trim_start().starts_with('{') || !text.contains(OLD) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let (mut quote, mut escaped, mut last) = (None, false, '\n');
    for c in text.chars() {
        match quote {
            Some('"') if c == '\\' => escaped = !escaped,
            Some(open) if c == open && !escaped => quote = None,
            Some(_) => escaped = false,
            // A quote opens only where a text may begin.
            None if matches!(c, '"' | '\'') && matches!(last, '\n' | ':' | ',' | '[' | '{' | '-' | '?') => {
                quote = Some(c);
            }
            None => {}
        }
        let ends = c == '\u{85}' || (quote.is_none() && OLD.contains(&c));
        let shown = if ends { '\n' } else { c };
        out.push(shown);
        if !matches!(shown, ' ' | '\t') {
            last = shown;
        }
    }
    out.into()
}
