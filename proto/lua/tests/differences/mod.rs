//! Recorded cases that ours answers otherwise, and why.

use crate::recorded::Differences;

const LUA_ITSELF: &str = "as Lua itself has it: exponents are read, infinity is no finite number";
const DIGITS: &str = "as Lua itself has it: 14 digits where a number becomes text in passing";
const GMATCH: &str = "as Lua itself has it: what gmatch returns can be called";
const NUMBER_FOR_FORMAT: &str = "as Lua itself has it: no number is an error, not a zero";
const SPECIAL_KEYS: &str =
    "recorded bug: keys with special characters failed the call, or their empty maps became lists";
const MOST: &str = "amounts end at the most there can be, as everywhere in the API";
const CLASS: &str =
    "recorded without quotas: the priority class of a template is told, and dropped by who heeds none";
const ENGINE: &str = "what tells one engine from others is not there";
const POSITION: &str = "where nobody's line called, no line is told";
const DATES: &str = "recorded bug: the day of the week, the day of the year and the date came out wrong";
const NO_REPLICAS: &str = "recorded bug: what is no number of replicas became -2147483648";
const NO_STATUS: &str = "nil is no status, not an error";
const NO_DEPENDENCIES: &str =
    "recorded bug: nil failed the call, so that an object without dependencies never settled";
const CHECKED: &str =
    "recorded before the check that every chain makes: a dependency without a kind is refused";
const LEFT_OVER: &str =
    "recorded bug: a value left over by the script's own end was taken for the function's";
const CASE: &str = "members are written as the API has them";
const UNTOUCHED: &str = "recorded bug: what a script does not touch lost large numbers, nulls and empties";
const SURVIVES: &str =
    "recorded bug: globals, functions and changed libraries of a script reached the next one";
const EMPTY_STATUS: &str = "an empty status is an empty map";
const NOTHING: &str =
    "a binding without clusters hands an empty list over, not nil: a loop over it does nothing";

/// Of scripts.
pub const LUA: Differences = &[
    (52, LUA_ITSELF),
    (53, LUA_ITSELF),
    (98, LUA_ITSELF),
    (124, DIGITS),
    (154, GMATCH),
    (168, NUMBER_FOR_FORMAT),
    (269, SPECIAL_KEYS),
    (270, SPECIAL_KEYS),
    (271, SPECIAL_KEYS),
    (272, SPECIAL_KEYS),
    (279, SPECIAL_KEYS),
    (334, MOST),
    (344, MOST),
    (349, CLASS),
    (440, ENGINE),
    (455, ENGINE),
    (461, ENGINE),
    (497, POSITION),
    (508, ENGINE),
    (512, DATES),
    (513, DATES),
    (519, DATES),
    (520, DATES),
    (548, NO_REPLICAS),
    (560, NO_REPLICAS),
    (561, NO_REPLICAS),
    (691, NO_STATUS),
    (704, UNTOUCHED),
    (706, EMPTY_STATUS),
    (712, NO_STATUS),
    (751, NO_DEPENDENCIES),
    (768, CHECKED),
    (772, NO_DEPENDENCIES),
    (820, LEFT_OVER),
    (839, MOST),
    (842, CASE),
    (870, UNTOUCHED),
    (871, UNTOUCHED),
    (872, UNTOUCHED),
    (874, UNTOUCHED),
    (878, UNTOUCHED),
    (882, NOTHING),
    (883, UNTOUCHED),
    (884, NOTHING),
    (886, UNTOUCHED),
    (888, UNTOUCHED),
    (894, UNTOUCHED),
    (900, CHECKED),
    (902, CHECKED),
    (909, SURVIVES),
    (910, SURVIVES),
    (911, SURVIVES),
    (912, SURVIVES),
    (913, SURVIVES),
    (914, SURVIVES),
    (916, SURVIVES),
    (918, SURVIVES),
];
