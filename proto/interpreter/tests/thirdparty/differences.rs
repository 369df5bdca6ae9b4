//! Cases of the kinds of other projects in which ours must differ, by reason; where the reason is a fault of what was recorded, it says so.

/// Reason, and the indices in the file.
pub type Group = (&'static str, &'static [usize]);

/// All of them.
pub const GROUPS: &[Group] = &[
    (
        "no list and an empty one are the same: a binding that is in no cluster. Counts are 0 and texts empty then",
        &[70, 85, 878, 892, 967, 981],
    ),
    (
        "no list and an empty one are the same: a binding that is in no cluster. The status stays as it is then",
        &[
            424, 439, 493, 507, 600, 804, 818, 1333, 1347, 1383, 1400, 1495, 1496, 1511, 1512, 1585, 1601,
            1602, 1726, 1740, 1819, 1925, 1939, 2021, 2035,
        ],
    ),
    ("recorded bug: no list failed the call; it is an empty one", &[347, 361]),
    (
        "recorded bug: an empty hash became the number 0, where the kind has a text; ours is empty",
        &[214, 215, 218, 224, 225, 228, 229],
    ),
    (
        "recorded bug: a pod that refers to nothing failed the call, so that nothing that depends on it settled; ours is an empty list",
        &[43, 46, 144, 407, 408, 514, 517, 520, 522],
    ),
    (
        "a namespace is not made up: there is none in what an object without one refers to, as of the native kinds",
        &[47, 145, 211, 410, 1464, 1546],
    ),
    (
        "an object without a status reports nothing, as every native kind; recorded was an empty object",
        &[
            112, 188, 249, 317, 376, 459, 637, 835, 918, 995, 1056, 1115, 1173, 1232, 1281, 1320, 1359, 1433,
            1692, 2052,
        ],
    ),
    (
        "a fraction of a replica is refused; recorded was the number without it, or a sum with it",
        &[53, 103, 149, 279, 415, 548, 786],
    ),
    ("recorded bug: more replicas than there can be became a negative number; ours refuses it", &[59, 554]),
    ("a text is no count: refused, as of the native kinds", &[101, 369, 393, 1351, 1764]),
    ("the digits of a text are read where a group says its replicas, as in the other kinds", &[1714, 1784]),
    (
        "recorded bug: a reference without a name failed the call; ours is no reference",
        &[337, 544, 955, 956, 959, 1020, 1080, 1139, 1305],
    ),
    ("recorded bug: the account default counted, which is everywhere", &[958, 1306]),
    ("recorded bug: without an account the call failed", &[1309, 1313]),
    (
        "recorded bug: the secrets of volumes were looked for in a field that volumes do not have",
        &[523, 525, 530, 531, 533, 535, 537, 539, 540, 541, 542],
    ),
    (
        "recorded bug: the verdict of a member carried over to the next ones; each is judged by itself",
        &[430, 431, 448, 449],
    ),
    (
        "recorded bug: one finished member made all look finished; a job is over once it is in all",
        &[1809, 1810, 1820, 1822, 1823, 1824, 1825, 1828, 1829, 1836],
    ),
    (
        "recorded was an error, which keeps the object from being applied at all; what is not there is not retained",
        &[
            489, 490, 491, 580, 581, 950, 951, 1015, 1016, 1076, 1077, 1135, 1136, 1193, 1194, 1244, 1245,
            1301, 1302,
        ],
    ),
    ("recorded bug: the last group got less than no replicas", &[1901]),
    (
        "recorded bug: the generation that the member saw was not reported, or was that of another kind's object",
        &[1167, 1168, 1169, 1170, 1171, 1172, 1175, 1176, 1177, 2090],
    ),
    (
        "recorded bug: the pods of a UnitedDeployment were looked for where it has none; ours finds them in the template of its subsets",
        &[266, 271, 272, 273, 275],
    ),
    ("GPUs are amounts like CPUs, and are added as such", &[1760, 1761]),
    ("CPUs may be written as 1500m", &[744]),
    ("memory as Flink writes it is read: 2g", &[771, 772]),
    ("what pods ask of nodes counts all of it, required affinity as well", &[675, 676]),
    ("an empty value that a member tells stays", &[1388, 1389, 1429, 1657]),
    ("an empty selector asks for nothing", &[2019]),
    ("conditions stand in the order in which they were met first", &[1682]),
    ("an empty time is none; recorded was that it came before all others", &[1504, 1525, 1594, 1615]),
    ("a state that is not known does not keep the others from being told", &[2085]),
    ("recorded bug: five milliseconds counted as longer than a minute", &[625]),
    ("a phase that is no text is none", &[574]),
    ("what a pod refers to does not depend on how it writes its amounts", &[1484, 1572]),
];
