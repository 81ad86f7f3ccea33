r"""The string formats that are enforced, as patterns.

Each is at most what the specification and the ``jsonschema`` package both accept: leap seconds and
the year 0000 are left out, hosts have at most seven labels (of at most 63 and then 30 characters,
so that the whole stays under 253; in an ``idn-hostname``, of letters of a few scripts), and a
``regex`` is one of a plain sub-language. The formats of :data:`EXACT` are the whole format, so they
can be negated too. Of those of :data:`SIGNS` the opposite is what lacks a sign that every text of
the format has, under any reading of it. Unknown formats are annotations. :data:`PYTHON_FORMATS` are
those of schemas made from types of Python.
"""

from __future__ import annotations

_DAY = r"(?:0[1-9]|1[0-9]|2[0-8])"
_YEAR = r"[0-9]{4}"
_LEAP = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE = (
    rf"(?:{_YEAR}-(?:(?:0[1-9]|1[0-2])-{_DAY}|(?:0[13-9]|1[0-2])-(?:29|30)"
    rf"|(?:0[13578]|1[02])-31)|{_LEAP}-02-29)"
)
_OFFSET = r"(?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_LOCAL_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
_TIME = rf"{_LOCAL_TIME}{_OFFSET}"

_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"{_BYTE}(?:\.{_BYTE}){{3}}"
_WORD = r"[0-9A-Fa-f]{1,4}"
_LAST = rf"(?:{_WORD}:{_WORD}|{_IPV4})"


def _ipv6() -> str:
    """The nine shapes of RFC 3986: how many words stand before and after the gap."""
    shapes = [rf"(?:{_WORD}:){{6}}{_LAST}"]
    for after in range(5, -1, -1):
        before = rf"(?:(?:{_WORD}:){{0,{4 - after}}}{_WORD})?" if after < 5 else ""
        shapes.append(rf"{before}::(?:{_WORD}:){{{after}}}{_LAST}")
    shapes.append(rf"(?:(?:{_WORD}:){{0,5}}{_WORD})?::{_WORD}")
    shapes.append(rf"(?:(?:{_WORD}:){{0,6}}{_WORD})?::")
    return "(?:" + "|".join(shapes) + ")"


_IPV6 = _ipv6()


def _label(most: int) -> str:
    """Letters, digits and inner hyphens; not two as the third and fourth, which marks punycode."""
    x, y = "[A-Za-z0-9]", "[A-Za-z0-9-]"
    short, third = rf"{x}(?:{y}?{x})?", rf"{x}{y}{x}{y}{{0,{most - 4}}}{x}"
    fourth = rf"{x}{y}-{x}(?:{y}{{0,{most - 5}}}{x})?"
    return rf"(?:{short}|{third}|{fourth})"


_HOST = rf"{_label(63)}(?:\.{_label(30)}){{0,6}}"

# Letters of IDNA 2008 that are allowed anywhere in a label and are written from left to right:
# Latin, Greek, Cyrillic, kana, CJK, Hangul. Ten of them need at most 59 characters in punycode.
_IDN = (
    r"a-z0-9\xdf-\xf6\xf8-\xff\u03ac-\u03ce\u0430-\u045f\u3041-\u3096\u30a1-\u30fa"
    r"\u4e00-\u9fff\uac00-\ud7a3"
)
_IDN_LABEL = rf"(?:[a-z0-9]{{1,30}}|[{_IDN}]{{1,10}}|[{_IDN}]{{1,2}}-[{_IDN}]{{1,7}})"

_UCS = r"\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
_PERCENT = r"%[0-9A-Fa-f]{2}"


def _uri(extra: str, reference: bool) -> str:
    """RFC 3986, or RFC 3987 with more characters allowed."""
    plain = rf"A-Za-z0-9._~!$&'()*+,;={extra}\-"
    char = rf"(?:[{plain}:@]|{_PERCENT})"
    user = rf"(?:[{plain}:]|{_PERCENT})*@"
    host = rf"(?:\[{_IPV6}\]|(?:[{plain}]|{_PERCENT})*)"
    authority = rf"(?:{user})?{host}(?::[0-9]*)?"
    path = rf"(?:/{char}*)*"
    absolute = rf"/(?:{char}+{path})?"
    tail = rf"(?:\?(?:{char}|[/?])*)?(?:#(?:{char}|[/?])*)?"
    full = rf"[A-Za-z][A-Za-z0-9+.-]*:(?://{authority}{path}|{absolute}|{char}+{path}|)"
    if not reference:
        return rf"^(?:{full}){tail}$"
    first = rf"(?:[{plain}@]|{_PERCENT})+{path}"
    return rf"^(?:{full}|//{authority}{path}|{absolute}|{first}|){tail}$"


_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_QUOTED = r'"(?:[ !#-\[\]-~]|\\[ -~])*"'
_MAIL_HOST = rf"(?:{_HOST}|\[{_IPV4}\]|\[IPv6:{_IPV6}\])"
_WIDE_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\xa1-\ud7ff\uf900-\uffef-]+"
_WIDE_LABEL = r"[A-Za-z0-9\xa1-\ud7ff\uf900-\uffef]+(?:-[A-Za-z0-9\xa1-\ud7ff\uf900-\uffef]+)*"

_POINTER = r"(?:/(?:[^~/]|~[01])*)*"
_NAME = "[A-Za-z0-9_]+"
_VARIABLE = rf"{_NAME}(?:\.{_NAME})*(?::[1-9][0-9]{{0,2}}|\*)?"
_LITERAL = rf"(?:[!#$&(-;=?-\[\]_a-z~]|{_PERCENT})"

_SECONDS = r"[0-9]+S"
_CLOCK = rf"T(?:[0-9]+H(?:[0-9]+M(?:{_SECONDS})?)?|[0-9]+M(?:{_SECONDS})?|{_SECONDS})"
_CALENDAR = r"(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"

_ESCAPED = r"\\[dDwWsSnrtfv.\\/^$|?*+(){}\[\]-]"
_MEMBER = rf"(?:[A-Za-z0-9_ .,:;@#%=/+!~]|a-z|A-Z|0-9|{_ESCAPED})"
_PIECE = (
    rf"(?:(?:[^\\^$.|?*+()\[\]{{}}]|{_ESCAPED}|\.|\[\^?{_MEMBER}+\])"
    r"(?:[*+?]|\{[1-9][0-9]?\})?)"
)
_FLAT = rf"{_PIECE}*(?:\|{_PIECE}*)*"
_REGEX = rf"\^?(?:{_PIECE}|\((?:\?:)?{_FLAT}\)[*+?]?)*\$?"

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"

FORMATS: dict[str, str] = {
    "date": rf"^(?!0000){_DATE}$",
    "time": rf"^{_TIME}$",
    "date-time": rf"^(?!0000){_DATE}[Tt]{_TIME}$",
    "duration": rf"^P(?:{_CALENDAR}(?:{_CLOCK})?|{_CLOCK}|[0-9]+W)$",
    "email": rf"^(?:{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@{_MAIL_HOST}$",
    "idn-email": rf"^{_WIDE_ATOM}(?:\.{_WIDE_ATOM})*@{_WIDE_LABEL}(?:\.{_WIDE_LABEL})*$",
    "hostname": rf"^{_HOST}$",
    "idn-hostname": rf"^{_IDN_LABEL}(?:\.{_IDN_LABEL}){{0,6}}$",
    "ipv4": rf"^{_IPV4}$",
    "ipv6": rf"^{_IPV6}$",
    "uri": _uri("", reference=False),
    "uri-reference": _uri("", reference=True),
    "iri": _uri(_UCS, reference=False),
    "iri-reference": _uri(_UCS, reference=True),
    "uri-template": rf"^(?:{_LITERAL}|\{{[+#./;?&]?{_VARIABLE}(?:,{_VARIABLE})*\}})*$",
    "uuid": rf"^{_UUID}$",
    "json-pointer": rf"^{_POINTER}$",
    "relative-json-pointer": rf"^(?:0|[1-9][0-9]*)(?:#|{_POINTER})$",
    "regex": rf"^{_REGEX}$",
}

# What types of Python write and read: times without an offset too, at most six decimals, durations
# with a sign and parts of a second. A year is 365 days, and there are at most 999,999,999 days.
_MICRO = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_PART = r"[0-9]{1,5}"
_PARTS = rf"T(?=.)(?:{_PART}H)?(?:{_PART}M)?(?:{_PART}(?:\.[0-9]{{1,6}})?S)?"
_REST_OF_YEAR = r"(?:[1-9]?[0-9]|[12][0-9]{2}|3(?:[0-5][0-9]|6[0-4]))D"
_SIXTY = "[1-5]?[0-9]"
_REST_OF_DAY = rf"T(?=.)(?:(?:1?[0-9]|2[0-3])H)?(?:{_SIXTY}M)?(?:{_SIXTY}(?:\.[0-9]{{1,6}})?S)?"
_YEARS = (  # from a million on; only the rest of a year fits beside as many
    r"(?:1[0-9]{6}|2[0-6][0-9]{5}|27[0-2][0-9]{4}|273[0-8][0-9]{3}|2739[0-6][0-9]{2}|27397[01][0-9]"
    r"|273972[0-5])Y"
)
_SPANS = "|".join(
    (
        rf"-?P(?:(?:[1-9][0-9]{{0,5}}Y)?{_PART}D|[1-9][0-9]{{0,5}}Y)(?:{_PARTS})?",
        rf"-?P{_PARTS}",
        rf"-?P(?:{_YEARS}(?:{_REST_OF_YEAR})?|2739726Y(?:[0-8]D)?)(?:{_REST_OF_DAY})?",
        rf"P2739726Y9D(?:{_REST_OF_DAY})?|-P2739726Y9D",
    )
)
PYTHON_FORMATS = {
    "time": rf"^{_MICRO}{_OFFSET}?$",
    "date-time": rf"^(?!0000){_DATE}T{_MICRO}{_OFFSET}?$",
    "duration": rf"^(?:{_SPANS})$",
}

EXACT = frozenset({"date", "time", "date-time", "ipv4", "ipv6", "uuid"})
SIGNS = {
    "hostname": r"^[A-Za-z0-9._-]+$",
    "email": "@",
    "idn-email": "@",
    "uri": r"^[A-Za-z][A-Za-z0-9+.-]*:",
    "iri": r"^[A-Za-z][A-Za-z0-9+.-]*:",
    "json-pointer": "^(?:/|$)",
    "relative-json-pointer": "^[0-9]",
    "duration": "P",
}
