"""mg, me and mn: every flag alone and in pairs on items in every state, random sets of flags, and every error."""

import random
from itertools import permutations

from conformance.corpus.case import EXPIRIES, NUMBERS, Group, store

STATES = {
    "absent": (),
    "plain": (store(b"<k>", b"value", b"0", b"0"),),
    "full": (store(b"<k>", b"value", b"4294967295", b"1000"),),
    "empty": (store(b"<k>", b""),),
    "fetched": (store(b"<k>", b"value", b"5", b"1000"), b"get <k>\r\n"),
    "stale": (store(b"<k>", b"value", b"5", b"1000"), b"md <k> I T500\r\n"),
    "stale and won": (store(b"<k>", b"value", b"5", b"1000"), b"md <k> I T500\r\n", b"mg <k>\r\n"),
    "vivified": (b"mg <k> N300\r\n",),
    "expired": (store(b"<k>", b"value", b"5", b"-1"),),
}
FLAGS = (
    b"c",
    b"f",
    b"h",
    b"k",
    b"l",
    b"Oopaque",
    b"q",
    b"s",
    b"t",
    b"u",
    b"v",
    b"N200",
    b"R100",
    b"R2000",
    b"T800",
    b"Ppath",
    b"Lhint",
)
AFTER = b"mg <k> f h s t v\r\n"
PRINTABLE = [bytes([c]) for c in range(33, 127)]
OURS = (b"K",)  # flags of mg that memcached does not know (docs/protocol.md)
EVERY_FLAG = b"b c f h k l Oo q s t u v N0 R0 T0 Pp Ll F0 C0 MS J0 D0 I S1 E1".split()


def opaque_edges() -> tuple[bytes, ...]:
    return (*(b"O" + b"x" * n for n in (0, 1, 30, 31, 32, 33, 100)), b"O\xff\xfe", b"O=;:%s", b"O0")


def build() -> Group:
    group = Group("mg")
    for state, setup in STATES.items():
        group.add(f"no flags on {state}", *setup, b"mg <k>\r\n", AFTER)
        for flag in FLAGS:
            group.add(f"{flag.decode()} on {state}", *setup, b"mg <k> " + flag + b"\r\n", AFTER, AFTER)
        for first, second in permutations(FLAGS, 2):
            group.add(
                f"{(first + b' ' + second).decode()} on {state}", *setup, b"mg <k> %s %s\r\n" % (first, second), AFTER
            )
    chance = random.Random(20180618)
    for number in range(600):
        state = chance.choice(list(STATES))
        flags = chance.sample(FLAGS, chance.randint(3, 9))
        flags += [chance.choice(EVERY_FLAG)] if chance.random() < 0.2 else []
        group.add(f"random set {number} on {state}", *STATES[state], b"mg <k> " + b" ".join(flags) + b"\r\n", AFTER)
    return group


def build_recache() -> Group:
    """The stories that N, R, I, T, W, X and Z are for."""
    group = Group("recache")
    group.add("a miss is won once", *[b"mg <k> N30 v t\r\n"] * 4, b"ms <k> 3 T90\r\nnew\r\n", b"mg <k> N30 v t\r\n")
    group.add(
        "a miss is won with its CAS", b"mg <k> N30 c v\r\n", b"ms <k> 3 C<cas0> T90\r\nnew\r\n", b"mg <k> N30 v c\r\n"
    )
    group.add(
        "the won item was deleted",
        b"mg <k> N30 c\r\n",
        b"delete <k>\r\n",
        b"ms <k> 3 C<cas0>\r\nnew\r\n",
        b"mg <k> v\r\n",
    )
    group.add("a new set forgets the winner", b"mg <k> N30 c\r\n", store(b"<k>", b"x"), b"mg <k> N30 c v\r\n")
    for recache in (b"R10", b"R60", b"R95", b"R105", b"R1000", b"R0", b"R-1"):
        group.add(
            f"{recache.decode()} with 100 s left",
            store(b"<k>", b"v", b"0", b"100"),
            *[b"mg <k> %s v\r\n" % recache] * 3,
        )
        group.add(f"{recache.decode()} without expiry", store(b"<k>", b"v"), *[b"mg <k> %s v\r\n" % recache] * 2)
        group.add(f"{recache.decode()} and N", *[b"mg <k> N50 %s v\r\n" % recache] * 3)
        group.add(f"{recache.decode()} before and after T", store(b"<k>", b"v", b"0", b"100"),
                  b"mg <k> T5000 %s t\r\n" % recache,
                  b"mg <k> %s T50 t\r\n" % recache)  # fmt: skip
    for invalidate in (b"I", b"I T30", b"T30 I", b"I T-1", b"I T0", b"I q", b"q I k Oq"):
        group.add(
            f"stale by md {invalidate.decode()}",
            store(b"<k>", b"old", b"1", b"900"),
            b"mg <k> c\r\n",
            b"md <k> " + invalidate + b"\r\n",
            *[b"mg <k> c t v\r\n"] * 3,
            b"ms <k> 3 C<cas0> I\r\nlow\r\n",
            b"mg <k> c t v\r\n",
            b"ms <k> 3 C<cas1>\r\ntwo\r\n",
            b"mg <k> c t v\r\n",
        )
    group.add(
        "an older CAS with I stores a stale item",
        store(b"<k>", b"one", b"2", b"400"),
        b"mg <k> c\r\n",
        store(b"<k>", b"two", b"3", b"800"),
        b"mg <k> c\r\n",
        b"ms <k> 5 C<cas0> I T100 F9\r\nthree\r\n",
        *[b"mg <k> c f t v\r\n"] * 2,
        b"ms <k> 4 C<cas2+1000> I\r\nlate\r\n",
        b"mg <k> c f t v\r\n",
    )
    for mode in b"ESAPR":
        group.add(
            f"an older CAS with I and mode {mode:c}",
            store(b"<k>", b"one"),
            b"mg <k> c\r\n",
            store(b"<k>", b"two"),
            b"ms <k> 5 C<cas0> I M%c c\r\nthree\r\n" % mode,
            *[b"mg <k> c f t v\r\n"] * 2,
        )
    group.add(
        "stale twice",
        store(b"<k>", b"v"),
        b"md <k> I\r\n",
        b"mg <k>\r\n",
        b"md <k> I\r\n",
        b"mg <k>\r\n",
        b"mg <k>\r\n",
    )
    for change in (b"touch <k> 50\r\n", b"gat 50 <k>\r\n", b"append <k> 0 0 1\r\n1\r\n", b"incr <k> 1\r\n",
                   b"ma <k>\r\n", store(b"<k>", b"n"),
                   b"add <k> 0 0 1\r\n1\r\n", b"replace <k> 0 0 1\r\n1\r\n", b"get <k>\r\n", b"ma <k> T90\r\n",
                   b"me <k>\r\n",
                   b"ms <k> 1 MA\r\n1\r\n", b"delete <k>\r\n"):  # fmt: skip
        group.add(
            f"stale, then {change[:14]!r}",
            store(b"<k>", b"5"),
            b"md <k> I\r\n",
            change,
            b"mg <k> t v\r\n",
            b"mg <k> t v\r\n",
        )
        group.add(f"won, then {change[:14]!r}", b"mg <k> N90\r\n", change, b"mg <k> t v\r\n", b"mg <k> N90 t v\r\n")
    return group


def build_errors() -> Group:
    group = Group("mgerrors")
    setup = store(b"<k>", b"value", b"5", b"100")
    for flag in PRINTABLE:
        if flag in OURS:
            continue
        group.add(f"flag {flag.decode()}", setup, b"mg <k> " + flag + b"\r\n", AFTER)
        group.add(f"flag {flag.decode()}12", setup, b"mg <k> " + flag + b"12\r\n", AFTER)
        group.add(f"flag {flag.decode()} twice", setup, b"mg <k> %s %s\r\n" % (flag, flag), AFTER)
        group.add(f"flag {flag.decode()} on a miss", b"mg <j> v " + flag + b" k Oo\r\n")
    for flag in (b"\x80", b"\xff", b"\x01", b"\t", b"v\xff", b"\x7f", b"v\t"):
        group.add(f"flag {flag!r}", setup, b"mg <k> " + flag + b"\r\n", AFTER)
    for letter in b"NTRCFJDMO":
        for number in EXPIRIES if letter in b"NT" else NUMBERS:
            group.add(f"{letter:c} token {number!r}", setup, b"mg <k> %c%s t\r\n" % (letter, number), AFTER)
        group.add(f"{letter:c} without token", setup, b"mg <k> %c v\r\n" % letter, AFTER)
    for number in EXPIRIES:
        group.add(f"N token {number!r} on a miss", b"mg <j> N%s t v c\r\n" % number, b"mg <j> t v\r\n")
        group.add(f"T token {number!r} on a miss", b"mg <j> T%s t v\r\n" % number)
    for opaque in opaque_edges():
        group.add(
            f"opaque of {len(opaque)}", setup, b"mg <k> v " + opaque + b"\r\n", b"mg <j> v " + opaque + b" k\r\n", AFTER
        )
        group.add(
            f"opaque of {len(opaque)} and N", b"mg <k> N90 " + opaque + b" t\r\n", b"mg <k> N90 t " + opaque + b"\r\n"
        )
        group.add(f"opaque of {len(opaque)} and q", b"mg <j> q " + opaque + b"\r\n", b"mg <j> " + opaque + b" q\r\n")
    many = b"c f h k l Oo s t u v N9 R9 T99 Pp Ll F1 C1 MS J1 D1 I b".split()
    for count in range(12, len(many) + 1):
        group.add(f"{count} flags", setup, b"mg <k> " + b" ".join(many[:count]) + b"\r\n", AFTER)
    for line in (b"mg", b"mg ", b"mg  ", b"m", b"mgg <k>", b"mG <k>", b"MG <k>", b"my <k>", b"mq <k>", b"m <k>",
                 b"mg\t<k>", b"  mg <k> v",
                 b"mg   <k>   v   t ", b"mg <k> v noreply", b"mg <k> <j> v", b"mg v v"):  # fmt: skip
        group.add(f"line {line!r}", setup, line + b"\r\n")
    for length in (1, 249, 250, 251, 252, 1000):
        key = b"<k=%d>" % length
        for flags in (b"v k", b"v q", b"b k"):
            group.add(f"key of {length} bytes, {flags.decode()}", b"mg " + key + b" " + flags + b"\r\n")
        group.add(
            f"vivified key of {length} bytes",
            b"mg " + key + b" N90 k\r\n",
            b"mg " + key + b" k\r\n",
            b"delete " + key + b"\r\n",
        )
    return group


def build_base64() -> Group:
    """Keys in base64: one binary key seen through both spellings, and text that is no base64.
    PGI2NHRleHQ+ is the base64 text of <b64text>."""
    group = Group("base64", alone=True)
    for flags in (b"b", b"b k", b"k b", b"k", b"b k v", b"v k b Oo", b"b b", b"b q", b"q k b"):
        group.add(f"mg {flags.decode()} after ms b", b"ms <k64> 2 b\r\nab\r\n", b"mg <k64> " + flags + b"\r\n")
        group.add(f"mg {flags.decode()} of a miss", b"mg <k64> " + flags + b"\r\n")
        group.add(f"mg {flags.decode()} of a text key", store(b"<k>", b"text"), b"mg <k> " + flags + b"\r\n")
    group.add(
        "text spelling of a binary key",
        b"ms PGI2NHRleHQ+ 2 b k\r\nab\r\n",
        b"mg <b64text> v k\r\n",
        b"get <b64text>\r\n",
        b"delete <b64text>\r\n",
    )
    group.add(
        "set as text, fetched in base64",
        store(b"<b64text>", b"v"),
        b"mg PGI2NHRleHQ+ b k v\r\n",
        b"md PGI2NHRleHQ+ b k\r\n",
    )
    group.add("all meta commands", b"ms <k64> 1 b k\r\n5\r\n", b"ma <k64> b k v\r\n", b"me <k64> b\r\n",
              b"me <k64>\r\n", b"md <k64> I b k\r\n",
              b"mg <k64> b k v\r\n", b"md <k64> b k q\r\n", b"mg <k64> b k v\r\n", b"ma <k64> b N0 k\r\n",
              b"mg <k64> b v s\r\n", b"md <k64> b\r\n")  # fmt: skip
    # Not asked: k of a vivified key, which memcached then spells in raw bytes, line ends and all.
    group.add("vivified", b"mg <k64> b N100 t\r\n", b"mg <k64> b t s v\r\n", b"ma <k64> b N0\r\n")
    for text in (b"a", b"ab", b"abc", b"abcd", b"abcde", b"====", b"a===", b"ab==", b"ab=c", b"=abc", b"abcdef==",
                 b"abcdefg=", b"a\xffbc", b"ab!d",
                 b"-_-_", b"ab\tcd", b"abcd====", b"ab==cd==", b"YWJj\r", b"YW Jj", b"AAAA", b"YQ==", b"YR==",
                 b"Y" * 248, b"Y" * 250, b"Y" * 251, b"Y" * 252):  # fmt: skip
        for command in (
            b"mg %s b k\r\n",
            b"ms %s 2 b k\r\nab\r\n",
            b"md %s b k\r\n",
            b"ma %s b k\r\n",
            b"me %s b\r\n",
            b"mg %s b v N0\r\n",
            b"md %s b\r\n",
        ):
            group.add(f"{command[:2].decode()} of {text[:20]!r}", command % text, b"version\r\n")
    return group


def build_debug() -> Group:
    """me and mn."""
    group = Group("me")
    for state, setup in STATES.items():
        group.add(f"me on {state}", *setup, b"me <k>\r\n", b"mg <k> h\r\n", b"me <k>\r\n")
    for change in (b"get <k>\r\n", b"mg <k>\r\n", b"mg <k> u\r\n", b"touch <k> 0\r\n", b"gat 0 <k>\r\n",
                   b"incr <k> 1\r\n", b"ma <k>\r\n",
                   b"append <k> 0 0 1\r\n1\r\n", b"add <k> 0 0 1\r\n1\r\n", b"mg <k> T50 u\r\n", b"mg <k> h\r\n",
                   b"mg <k> l u\r\n"):  # fmt: skip
        group.add(
            f"me after {change[:12]!r}", store(b"<k>", b"5", b"0", b"300"), change, b"me <k>\r\n", b"mg <k> h l t u\r\n"
        )
    for line in (
        b"me",
        b"me ",
        b"me <k> v",
        b"me <k> b",
        b"me <k> q",
        b"me <k> k Oo",
        b"me <k> <j>",
        b"me <k> v b",
        b"me  <k>  ",
        b"ME <k>",
    ):
        group.add(f"line {line!r}", store(b"<k>", b"v"), line + b"\r\n")
    for length in (1, 249, 250, 251, 252, 1000):
        key = b"<k=%d>" % length
        group.add(f"key of {length} bytes", b"me " + key + b"\r\n", b"me " + key + b" b\r\n")
    for line in (b"mn", b"mn ", b"mn x", b"mn q k v", b" mn", b"MN", b"mnn", b"mn\t"):
        group.add(f"line {line!r}", line + b"\r\n")
    group.add("mn among others", b"mn\r\nmg <k> q\r\nmn\r\nmg <k>\r\nmn\r\n")
    return group
