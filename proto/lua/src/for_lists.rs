//! The lists of `for … in` loops, which Lua 5.2 itself does not bound: one of more than three expressions has its compiler count registers wrongly,
//! and what is compiled then writes beyond its stack. A fourth expression is of no use: the loop takes three.
//!
//! In: a script. Out: nothing, or in words which line is refused. Only words, brackets and commas are told apart; what is no Lua is left to Lua.

/// Expressions that a loop takes.
const MOST: usize = 3;

/// What is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    /// What `end` or `until` closes.
    Block,
    /// A bracket of any form.
    Bracket,
    /// The list of a loop up to its `do`, with the commas so far.
    List(usize),
}

/// Looks through a script.
///
/// # Errors
/// In words, the first list that is too long.
pub(crate) fn check(script: &str) -> Result<(), String> {
    let (mut open, mut rest) = (Vec::new(), script.as_bytes());
    while !rest.is_empty() {
        let length = skipped(rest).unwrap_or_else(|| word(rest).max(1));
        take(&mut open, &rest[..length]);
        if open.last().is_some_and(|last| matches!(last, Open::List(commas) if *commas >= MOST)) {
            let line =
                script.bytes().take(script.len() - rest.len()).filter(|byte| *byte == b'\n').count() + 1;
            return Err(format!("line {line}: a for loop takes {MOST} expressions at most"));
        }
        rest = &rest[length..];
    }
    Ok(())
}

/// What a word or a sign opens and closes.
fn take(open: &mut Vec<Open>, token: &[u8]) {
    let close = |open: &mut Vec<Open>, what: Open| {
        open.pop_if(|last| *last == what);
    };
    match token {
        b"function" | b"if" | b"repeat" => open.push(Open::Block),
        b"in" => open.push(Open::List(0)),
        b"do" => {
            open.pop_if(|last| matches!(last, Open::List(_)));
            open.push(Open::Block);
        }
        b"end" | b"until" => close(open, Open::Block),
        b"(" | b"[" | b"{" => open.push(Open::Bracket),
        b")" | b"]" | b"}" => close(open, Open::Bracket),
        b"," => {
            if let Some(Open::List(commas)) = open.last_mut() {
                *commas += 1;
            }
        }
        _ => {}
    }
}

/// How long a name or number is that begins here.
fn word(rest: &[u8]) -> usize {
    rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count()
}

/// How long the comment or text is that begins here.
fn skipped(rest: &[u8]) -> Option<usize> {
    if let Some(comment) = rest.strip_prefix(b"--") {
        let line = || comment.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(comment.len());
        return Some(2 + long_text(comment).unwrap_or_else(line));
    }
    match rest[0] {
        quote @ (b'"' | b'\'') => {
            let mut at = 1;
            // A line that ends within it is Lua's to refuse, unless it is escaped in one of several ways.
            while at < rest.len() && rest[at] != quote {
                at += if rest[at] == b'\\' { 2 } else { 1 };
            }
            Some((at + 1).min(rest.len()))
        }
        b'[' => long_text(rest),
        _ => None,
    }
}

/// How long the text in long brackets (`[==[ … ]==]`) is that begins here.
fn long_text(rest: &[u8]) -> Option<usize> {
    let level = rest.strip_prefix(b"[")?.iter().take_while(|byte| **byte == b'=').count();
    if rest.get(level + 1) != Some(&b'[') {
        return None;
    }
    let close = [b"]".as_slice(), &vec![b'='; level], b"]"].concat();
    let body = &rest[level + 2..];
    let end = body.windows(close.len()).position(|window| window == close);
    Some(end.map_or(rest.len(), |end| level + 2 + end + close.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_takes_three_expressions_whatever_stands_in_them() {
        for (list, fits) in [
            ("pairs(t)", true),
            ("next, t, nil", true),
            ("next, t, nil, 1", false),
            ("f(1, 2, 3, 4, 5), {1, 2, 3, 4}, t[g(1, 2, 3, 4)]", true),
            ("f(1, 2, 3, 4, 5), {1, 2, 3, 4}, 1, t[1]", false),
            ("function(a, b, c, d, e) for i = 1, 2, 3 do h(1, 2, 3, 4) end end, 1, 2", true),
            ("function() if x then y = 1 elseif z then repeat f() until q end end, 1, 2, 3", false),
            ("(function() while a do b() end return 1, 2, 3, 4 end)()", true),
            ("'a, b, c, d', \"e, f, \\\", g\", [[h, i, j]]", true),
            ("--[==[ 1, 2, 3, 4 ]] ]==] 1, -- , , ,\n 2, [==[ ]] , ]==]", true),
            ("1, --[[ ]] 2, [=[ ]=], 4", false),
        ] {
            let script =
                format!("local x = 1\nfor k, v, w, z in {list} do local a, b, c, d = 1, 2, 3, 4 end");
            let came = check(&script);
            assert_eq!(came.is_ok(), fits, "{list}: {came:?}");
        }
        let nested = "for a in b do\nfor c in 1, 2, 3, 4 do end\nend";
        assert_eq!(check(nested), Err("line 2: a for loop takes 3 expressions at most".to_owned()));
        for hidden in ["x = \"\\z\n--[[\"", "x = \"\\\r\n--[[\"", "-- a\r", "x = '--[[' y = \"[[\""] {
            let script = format!("{hidden} for a in 1, 2, 3, 4 do end");
            assert!(check(&script).is_err(), "{hidden:?}");
        }
        for broken in ["'open", "[[open", "--[[open", "for a in (", "end end )", "\\", "'\\"] {
            assert_eq!(check(broken), Ok(()), "{broken}");
        }
    }
}
