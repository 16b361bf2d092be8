"""Random conversations over three keys, values of many sizes, and damaged input."""

import random
import re

from conformance.corpus.case import Group, store

KEYS = (b"<k>", b"<j>", b"<i>")


def random_command(chance: random.Random) -> bytes:
    """One command, meaningful more often than not. No value is of white space only: as a number memcached would read
    on behind it, into what the memory held before."""
    key = chance.choice(KEYS)
    value = chance.choice((b"", b"1", b"50", b"9999999", b"text", b"x" * chance.randint(1, 400), b"7\r\n"))
    time = chance.choice((b"0", b"0", b"500", b"-1", b"2000000000"))
    flags = b"%d" % chance.choice((0, 0, 1, 65535, 4294967295))
    noreply = chance.choice((b"", b"", b"", b" noreply"))
    cas = b"<cas%d>" % chance.randint(0, 4)
    number = chance.choice((b"1", b"7", b"100000", b"100000000000000"))
    some_keys = b" ".join(chance.choices(KEYS, k=chance.randint(1, 5)))
    store_command = chance.choice((b"set", b"set", b"add", b"replace", b"append", b"prepend"))
    store_mode = chance.choice((b"ME", b"MA", b"MP", b"MR", b"MS"))
    count_mode = chance.choice((b"MI", b"MD"))

    def some(flags_of_command: bytes) -> bytes:
        """At most four of the flags, with their tokens."""
        tokens = {b"O": b"%d" % chance.randint(0, 999), b"T": time, b"C": cas, b"F": flags, b"J": number, b"D": number}
        words = flags_of_command.split()
        picked = chance.sample(words, chance.randint(0, 4))
        return b"".join(b" " + flag + tokens.get(flag, b"") for flag in picked)

    size = len(value)
    commands = {
        b"%s %s %s %s %d%s\r\n%s\r\n" % (store_command, key, flags, time, size, noreply, value): 5,
        b"cas %s %s %s %d %s%s\r\n%s\r\n" % (key, flags, time, size, cas, noreply, value): 3,
        b"%s %s\r\n" % (chance.choice((b"get", b"gets")), some_keys): 3,
        b"%s %s %s\r\n" % (chance.choice((b"gat", b"gats")), time, some_keys): 2,
        b"%s %s %s%s\r\n" % (chance.choice((b"incr", b"decr")), key, number, noreply): 4,
        b"touch %s %s%s\r\n" % (key, time, noreply): 2,
        b"delete %s%s\r\n" % (key, noreply): 2,
        b"mg %s%s\r\n" % (key, some(b"c f h k l O q s t u v N600 R700 T")): 6,
        b"ms %s %d%s\r\n%s\r\n" % (key, size, some(b"c C F I k O q T " + store_mode), value): 5,
        b"md %s%s\r\n" % (key, some(b"C I k O q T")): 3,
        b"ma %s%s\r\n" % (key, some(b"C N600 J D q t c v k O " + count_mode)): 5,
        b"me %s\r\n" % key: 1,
    }
    return chance.choices(list(commands), list(commands.values()))[0]


def build_random() -> Group:
    group = Group("random")
    chance = random.Random(1618033988)
    for number in range(700):
        steps = [random_command(chance) for _ in range(chance.randint(4, 16))]
        group.add(
            f"conversation {number}",
            *steps,
            b"mg <k> c f h s t v\r\n",
            b"mg <j> c f h s t v\r\n",
            b"mg <i> c f h s t v\r\n",
        )
    group.add(
        "flush in the middle",
        *[random_command(chance) for _ in range(6)],
        b"flush_all\r\n",
        *[random_command(chance) for _ in range(6)],
    )
    return group


def build_values() -> Group:
    """Values around the sizes of buffers and slots; item sizes near the limit are the servers' own and stay out."""
    group = Group("values")
    chance = random.Random(141421356)
    for size in (1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 255, 256, 257, 511, 512, 1023, 1024, 1025, 1383, 1384,
                 1385, 2046, 2047, 2048,
                 2049, 4095, 4096, 4097, 8192, 16383, 16384, 16385, 32768, 65535, 65536, 65537, 131072, 262144,
                 400000, 524288, 600000, 900000, 1000000):  # fmt: skip
        value = chance.randbytes(size)
        group.add(f"set and get {size}", store(b"<k>", value, b"1"), b"get <k>\r\n", b"mg <k> s\r\n")
        if size <= 70000:
            group.add(
                f"ms and mg {size}",
                b"ms <k> %d F2\r\n%s\r\n" % (size, value),
                b"mg <k> v s f\r\n",
                b"get <k> <k> <k>\r\n",
            )
            group.add(
                f"append to {size}",
                store(b"<k>", value),
                b"append <k> 0 0 5\r\nAFTER\r\n",
                b"prepend <k> 0 0 6\r\nBEFORE\r\n",
                b"gets <k>\r\n",
            )
            group.add(
                f"shrink from {size}",
                store(b"<k>", value),
                store(b"<k>", b"s"),
                b"get <k>\r\n",
                store(b"<k>", value),
                b"mg <k> s v\r\n",
            )
    big = b"B" * 600000
    huge = b"H" * (1 << 20)
    too_big = b" <k> 0 0 1048576\r\n" + huge + b"\r\n"
    for command in (b"set", b"add", b"replace", b"append", b"prepend"):
        group.add(
            f"{command.decode()} over the limit",
            store(b"<k>", b"old"),
            command + too_big,
            b"get <k>\r\n",
            b"version\r\n",
        )
        group.add(
            f"{command.decode()} over the limit, noreply",
            store(b"<k>", b"old"),
            command + too_big.replace(b"76\r", b"76 noreply\r"),
            b"get <k>\r\n",
        )
    group.add(
        "cas over the limit", store(b"<k>", b"old"), b"cas <k> 0 0 1048576 5\r\n" + huge + b"\r\n", b"get <k>\r\n"
    )
    for flags in (b"", b" q", b" MA", b" ME", b" k Oo c", b" I C5"):
        group.add(
            f"ms over the limit{flags.decode()}",
            store(b"<k>", b"old"),
            b"ms <k> 1048576" + flags + b"\r\n" + huge + b"\r\n",
            b"get <k>\r\n",
        )
    for length in (1048577, 1100000, 2000000, 5000000):
        group.add(f"set of {length}", b"set <k> 0 0 %d\r\n" % length + b"h" * length + b"\r\n", b"get <k>\r\n")
    group.add(
        "append past the limit", store(b"<k>", big), b"append <k> 0 0 600000\r\n" + big + b"\r\n", b"mg <k> s\r\n"
    )
    group.add("incr of a big value", store(b"<k>", b"5" * 600000), b"incr <k> 1\r\n", b"mg <k> s\r\n")
    group.add("big value, bad end", store(b"<k>", b"old"), b"set <k> 0 0 600000\r\n" + big + b"xx\r\n", b"mg <k> s\r\n")
    group.add(
        "big value, no end of line", b"set <k> 0 0 20000\r\n" + b"n" * 30000 + b"\r\nversion\r\n", b"mg <k> s\r\n"
    )
    return group


def build_lines() -> Group:
    """Lines too long, empty, cut, and from other protocols."""
    group = Group("lines")
    for line in (
        b"",
        b" ",
        b"  ",
        b"\t",
        b"\r",
        b"\r\r",
        b"\0",
        b"\x01",
        b"\x7f",
        b"\xff",
        b"x",
        b"xy",
        b"\xff\xfe",
        b"0",
        b"-",
        b"END",
        b"STORED",
    ):
        group.add(f"line {line!r}", line + b"\r\n", line + b"\n", b"version\r\n")
    for line in (
        b"get <k>\0 x",
        b"get \0<k>",
        b"get <k> \0",
        b"\0get <k>",
        b"version\0x",
        b"ge\0t <k>",
        b"delete <k>\0 0",
        b"mg <k>\0 v",
        b"incr <k>\0 1",
    ):
        group.add(f"zero byte {line!r}", store(b"<k>", b"5"), line + b"\r\n", b"get <k>\r\n")
    group.add("set, zero byte after the length", b"set <k> 0 0 2\0 noreply\r\nab\r\n", b"get <k>\r\n")
    for request in (
        b"GET / HTTP/1.1",
        b"GET / HTTP/1.0",
        b"POST / HTTP/1.1",
        b"HTTP/1.1",
        b"xy HTTP/",
        b"PUT a b c d HTTP/9",
        b"OPTIONS * HTTP/1.1 ",
    ):
        group.add(f"request {request!r}", request + b"\r\n", closes=True)
        group.add(f"request {request!r} after an answer", b"version\r\n", request + b"\r\nHost: x\r\n\r\n", closes=True)
    for request in (b"x HTTP/", b"x HTTP/1.1 y", b"get / HTTP/1.1", b"set / HTTP/1.1", b"delete / HTTP/1.1",
                    b"xHTTP/1.1", b"HTTP", b"x http/1.1", b"PING", b"*1", b"$4",
                    b"HELO host", b"SSH-2.0-x", b"{\"a\":1}", b"EHLO", b"USER x", b"\x16\x03\x01\x02\x00\x01",
                    b"<stream>"):  # fmt: skip
        group.add(f"other protocol {request!r}", request + b"\r\n", b"version\r\n")
    for length in (1023, 1024, 2000, 2040):
        group.add(f"word of {length}", b"w" * length + b"\r\n", b"version\r\n")
        group.add(f"set key of {length}", b"set " + b"w" * length + b" 0 0 2\r\nab\r\n", b"version\r\n")
        group.add(f"mg opaque of {length}", b"mg <k> O" + b"w" * length + b"\r\n", b"version\r\n")
        group.add(
            f"spaces {length}",
            b" " * length + b"\r\n",
            b"get" + b" " * length + b"\r\n",
            b" " * length + b"version\r\n",
        )
        group.add(
            f"words {length}",
            b"w " * (length // 2) + b"\r\n",
            b"set " + b"w " * (length // 2) + b"\r\n",
            b"version\r\n",
        )
    for length in (20000, 70000):  # no end of line within any buffer
        for start in (b"", b"set ", b"mg ", b"gat 0 ", b"GET ", b" " * 101 + b"get ", b"gets" + b"x", b"\xff"):
            group.add(f"endless line {start[:8]!r} {length}", b"version\r\n", start + b"w" * length, closes=True)
    for count in (300, 1000, 5000):
        keys = b" ".join(b"<j>%d" % n for n in range(count))
        for command in (b"get ", b"gets ", b"   get "):
            group.add(f"{command.decode()}{count} absent keys", command + keys + b"\r\n", b"version\r\n")
    twenty = b"".join(store(b"<k>%d" % n, b"v%d" % n) for n in range(20))
    group.add(
        "get of 2000 present keys", twenty, b"get " + b" ".join(b"<k>%d" % (n % 20) for n in range(2000)) + b"\r\n"
    )
    group.add("gets with a long key far back", b"get " + b"<j> " * 1000 + b"y" * 300 + b"\r\n", b"version\r\n")
    return group


BIG_NUMBER = re.compile(rb"\d{4,}")
# These would change the server for the cases after them, or never answer.
UNSAFE = re.compile(
    rb"watch|shutdown|flush_all\s+[1-9+]|verbosity|stats|lru_crawler|cache_memlimit|slabs|quit|HTTP/|version|extstore"
)
SHORT_TIME = re.compile(rb"(?m)^ *\w+ +\S+ +\S+ +[1-9]\b|[TN]\+?[1-9]\b|(?:touch +\S+|gats?) +[1-9]\b")  # see EXPIRIES
OUR_OWN = re.compile(rb"(?m)^ *m[rx] ")  # commands on ranges, which memcached does not have
FILLER = b"\r\n" + (b"get " + b"x" * 120 + b"\r\n") * 9  # more bytes than any length that is left can swallow


def damaged(chance: random.Random, command: bytes) -> bytes:
    data = bytearray(command)
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(data))
        match chance.randrange(5):
            case 0:
                data[place] = chance.randrange(256)
            case 1:
                data[place] ^= 1 << chance.randrange(8)
            case 2:
                del data[place]
            case 3:
                data.insert(place, chance.choice(b" \r\n\t\0-9aMk\xff"))
            case _:
                other = chance.randrange(len(data))
                data[place], data[other] = data[other], data[place]
        if not data:
            data += b"x"
    return bytes(data)


def build_damaged() -> Group:
    group = Group("damaged", alone=True)
    chance = random.Random(577215664)
    while len(group) < 1200:
        command = re.sub(rb"<cas\d>", b"888", random_command(chance))
        broken = damaged(chance, re.sub(rb"<([kji])>", rb"\g<1>\g<1>%d" % len(group), command))
        if broken[0] == 0x80 or b"\n\x80" in broken or any(r.search(broken) for r in (BIG_NUMBER, UNSAFE, SHORT_TIME)):
            continue
        if OUR_OWN.search(broken):
            continue
        keys = b" ".join(b"%s%d" % (name * 2, len(group)) for name in (b"k", b"j", b"i"))
        group.add(
            f"{broken[:40]!r}", broken + FILLER, b"get " + keys + b"\r\n", quirk="an over-long key may drop answers"
        )
    for number in range(300):
        noise = chance.randbytes(chance.randint(1, 120)).replace(b"\x80", b"~")
        group.add(f"noise {number}", noise + b"\r\n", b"version\r\n")
        words = b" ".join(
            chance.choice(
                (b"get", b"set", b"mg", b"0", b"noreply", b"k", b"7", b"\xff", b"-1", b"ms", b"O", b"b", b"v")
            )
            for _ in range(9)
        )
        group.add(f"word salad {number}", words + b"\r\n" + FILLER, b"version\r\n")
    return group
