//! `os.time` and `os.date`, in UTC.
//!
//! In: what a script asks, and the moment it is. Out: seconds, tables, texts. Nothing here looks at a clock.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};
use mlua::{Lua, Table, Value as LuaValue};

/// Longer formats are refused.
const LONGEST_FORMAT: usize = 1000;

/// The seconds of the moment, or of the date in a table.
pub(crate) fn time(asked: &LuaValue, now: Timestamp) -> mlua::Result<i64> {
    match asked {
        LuaValue::Nil => Ok(now.as_second()),
        LuaValue::Table(table) => of_table(table),
        other => Err(mlua::Error::runtime(format!(
            "bad argument #1 to time (table expected, got {})",
            other.type_name()
        ))),
    }
}

fn of_table(table: &Table) -> mlua::Result<i64> {
    let field = |name: &str, default: Option<i64>| -> mlua::Result<i64> {
        let value = table.raw_get::<Option<f64>>(name)?;
        #[expect(clippy::cast_possible_truncation, reason = "it is limited before")]
        let value = value.map(|value| value.clamp(-1e9, 1e9) as i64).or(default);
        value.ok_or_else(|| mlua::Error::runtime(format!("field '{name}' missing in date table")))
    };
    let (year, month) = (field("year", None)?, field("month", None)? - 1);
    let year = year + month.div_euclid(12);
    let first = i16::try_from(year).ok().and_then(|year| {
        let month = i8::try_from(month.rem_euclid(12) + 1).ok()?;
        DateTime::new(year, month, 1, 0, 0, 0, 0).ok()
    });
    let days = field("day", None)? - 1;
    let seconds = field("hour", Some(12))? * 3600 + field("min", Some(0))? * 60 + field("sec", Some(0))?;
    let moment = first.and_then(|first| {
        let span = Span::new().try_days(days).ok()?.try_seconds(seconds).ok()?;
        first.checked_add(span).ok()?.to_zoned(TimeZone::UTC).ok()
    });
    moment
        .map(|moment| moment.timestamp().as_second())
        .ok_or_else(|| mlua::Error::runtime("the date is out of range"))
}

/// A moment as a table or a text.
pub(crate) fn date(
    lua: &Lua,
    format: Option<String>,
    at: Option<f64>,
    now: Timestamp,
) -> mlua::Result<LuaValue> {
    let format = format.unwrap_or_else(|| "%c".to_owned());
    if format.len() > LONGEST_FORMAT {
        return Err(mlua::Error::runtime(format!("a format of a date has {LONGEST_FORMAT} bytes at most")));
    }
    #[expect(clippy::cast_possible_truncation, reason = "what is out of range is refused behind")]
    let moment = at.map_or(Ok(now), |at| Timestamp::from_second(at as i64));
    let moment =
        moment.map_err(|_| mlua::Error::runtime("the date is out of range"))?.to_zoned(TimeZone::UTC);
    let format = format.strip_prefix('!').unwrap_or(&format);
    if format.starts_with("*t") {
        return table(lua, &moment).map(LuaValue::Table);
    }
    Ok(LuaValue::String(lua.create_string(text(format, &moment))?))
}

fn table(lua: &Lua, moment: &Zoned) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("year", moment.year())?;
    table.raw_set("month", moment.month())?;
    table.raw_set("day", moment.day())?;
    table.raw_set("hour", moment.hour())?;
    table.raw_set("min", moment.minute())?;
    table.raw_set("sec", moment.second())?;
    table.raw_set("wday", moment.weekday().to_sunday_one_offset())?;
    table.raw_set("yday", moment.day_of_year())?;
    table.raw_set("isdst", false)?;
    Ok(table)
}

/// Letters that stand for a part of a date; others stand for themselves.
fn directive(letter: char) -> Option<&'static str> {
    Some(match letter {
        'a' => "%a",
        'A' => "%A",
        'b' => "%b",
        'B' => "%B",
        'c' => "%d %b %y %H:%M UTC",
        'd' => "%d",
        'D' | 'x' => "%m/%d/%y",
        'F' => "%Y-%m-%d",
        'H' => "%H",
        'I' => "%I",
        'j' => "%j",
        'm' => "%m",
        'M' => "%M",
        'p' => "%p",
        'S' => "%S",
        'T' | 'X' => "%H:%M:%S",
        'y' => "%y",
        'Y' => "%Y",
        'Z' => "UTC",
        '%' => "%%",
        _ => return None,
    })
}

fn text(format: &str, moment: &Zoned) -> String {
    let mut text = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        let letter = letters.next();
        match letter.and_then(directive).and_then(|d| jiff::fmt::strtime::format(d, moment).ok()) {
            Some(part) => text.push_str(&part),
            None => text.extend(std::iter::once('%').chain(letter)),
        }
    }
    text
}
