"""set, add, replace, append, prepend and cas."""

from conformance.corpus.case import EXPIRIES, NUMBERS, Group, as_int32, store

PLAIN = (b"set", b"add", b"replace", b"append", b"prepend")
STATES = {
    "absent": b"",
    "present": store(b"<k>", b"before", b"9", b"500"),
    "deleted": store(b"<k>", b"before") + b"delete <k>\r\n",
    "expired": store(b"<k>", b"before", b"1", b"-1"),
    "stale": store(b"<k>", b"before", b"9", b"500") + b"md <k> I\r\n",
    "empty": store(b"<k>", b""),
}
SHOW = b"get <k>\r\n"
SHOW_ALL = b"mg <k> f h s t v\r\n"


def command_line(command: bytes, key: bytes, flags: bytes, expiry: bytes, length: bytes, *more: bytes) -> bytes:
    unique = (b"<cas0>",) if command == b"cas" and not more else ()
    return b" ".join((command, key, flags, expiry, length, *unique, *more)) + b"\r\n"


def add_grid(group: Group) -> None:
    for command in (*PLAIN, b"cas"):
        for state, setup in STATES.items():
            for value in (b"", b"x", b"after", b"a\r\nb", b"\r\n", b"y" * 300):
                for noreply in (False, True):
                    more = (b"12345678901", b"noreply") if command == b"cas" else (b"noreply",)
                    line = command_line(command, b"<k>", b"3", b"0", b"%d" % len(value), *(more if noreply else ()))
                    steps = [setup] if setup else []
                    if command == b"cas":
                        steps.append(b"gets <k>\r\n")
                    steps += [line + value + b"\r\n", SHOW, SHOW_ALL]
                    group.add(f"{command.decode()} on {state}, {len(value)} bytes, noreply {noreply}", *steps)


def add_numbers(group: Group) -> None:
    for command in (*PLAIN, b"cas"):
        unique = (b"7",) if command == b"cas" else ()
        for number in NUMBERS:
            group.add(
                f"{command.decode()} flags {number!r}",
                store(b"<k>", b"old"),
                command_line(command, b"<k>", number, b"0", b"2", *unique) + b"ab\r\n",
                SHOW,
            )
            length = as_int32(number)
            if length is not None and 70000 < length < 2147483646:
                continue  # no answer comes before the whole value has: see test_bad_input.py
            data = b"d" * length + b"\r\n" if length is not None and 0 <= length <= 70000 else b"ab\r\n"
            group.add(
                f"{command.decode()} length {number!r}",
                store(b"<k>", b"old"),
                command_line(command, b"<k>", b"0", b"0", number, *unique) + data,
                b"mg <k> s\r\n",
            )
        for number in EXPIRIES:
            group.add(
                f"{command.decode()} exptime {number!r}",
                store(b"<k>", b"old"),
                command_line(command, b"<k>", b"0", number, b"2", *unique) + b"ab\r\n",
                SHOW_ALL,
            )
    for number in NUMBERS:
        group.add(f"cas unique {number!r}", store(b"<k>", b"old"), b"cas <k> 0 0 2 " + number + b"\r\nab\r\n", SHOW)
        group.add(f"cas unique {number!r} of an absent key", b"cas <k> 0 0 2 " + number + b"\r\nab\r\n", SHOW)
        group.add(
            f"cas unique {number!r}, noreply",
            store(b"<k>", b"old"),
            b"cas <k> 0 0 2 " + number + b" noreply\r\nab\r\n",
            SHOW,
        )


def add_shapes(group: Group) -> None:
    for command in (*PLAIN, b"cas"):
        name = command.decode()
        words = [b"<k>", b"0", b"0", b"2", b"7", b"noreply", b"more", b"more", b"more"]
        for count in range(len(words) + 1):
            line = b" ".join([command, *words[:count]]) + b"\r\n"
            group.add(f"{name} with {count} words", line + b"ab\r\n", SHOW)
        group.add(f"{name} with 40 words", b" ".join([command] + [b"w"] * 40) + b"\r\nab\r\n")
        tail = b" 7" if command == b"cas" else b""
        setup = store(b"<k>", b"old", b"1")
        for last in (
            b"noreply",
            b"NOREPLY",
            b"norepl",
            b"noreplyx",
            b"x",
            b"0",
            b"noreply ",
            b" noreply",
            b"\tnoreply",
        ):
            group.add(
                f"{name} last word {last!r}", setup, command + b" <k> 0 0 2" + tail + b" " + last + b"\r\nab\r\n", SHOW
            )
        for place in range(4):
            fields = [b"<k>", b"0", b"0", b"2"]
            fields[place] = b"noreply"
            group.add(
                f"{name} noreply as word {place}",
                setup,
                command + b" " + b" ".join(fields) + tail + b"\r\nab\r\n",
                SHOW,
            )
        group.add(
            f"{name} key named noreply", command + b" noreply 0 0 2" + tail + b"\r\nab\r\n", b"delete noreply\r\n"
        )
        for bad in (b"x", b"-1", b"9999999999999999999999"):
            line = command + b" <k> 0 0 " + bad + tail + b" noreply\r\nab\r\n"
            group.add(f"{name} noreply hides a bad length {bad!r}", setup, line, SHOW)
        for data in (b"ab", b"a", b"abc", b"", b"abcd", b"ab\n", b"ab\r", b"a\r\n", b"ab\rx", b"abx\n", b"\r\nab"):
            # Enough follows that the wrong count swallows a known part of it.
            line = command + b" <k> 0 0 2" + tail + b"\r\n" + data + b"\r\n"
            group.add(f"{name} data {data!r} for a length of 2", setup, line + b"\r\nversion\r\n", SHOW)
            line = command + b" <k> 0 0 2" + tail + b" noreply\r\n" + data + b"\r\n"
            group.add(f"{name} noreply data {data!r} for a length of 2", setup, line + b"\r\nversion\r\n", SHOW)
        group.add(f"{name} ended by line feed", setup, command + b" <k> 0 0 2" + tail + b"\nab\r\n", SHOW)
        group.add(f"{name} data ended by line feed", setup, command + b" <k> 0 0 2" + tail + b"\r\nab\n\n\r\n", SHOW)
        group.add(f"{name} many spaces", setup, b"  " + command + b"   <k>  0   0  2 " + tail + b"  \r\nab\r\n", SHOW)
        for length in (1, 249, 250, 251, 252, 1000):
            key = b"<k=%d>" % length
            line = command + b" " + key + b" 0 0 2" + tail + b"\r\nab\r\n"
            group.add(
                f"{name} key of {length} bytes",
                line,
                b"get " + b"<k=%d>" % min(length, 250) + b"\r\n",
                b"delete " + b"<k=%d>" % min(length, 250) + b"\r\n",
            )
        for key in (b"\xff\xfe<k>", b"<k>\x01", b"<k>\x7f", b"caf\xc3\xa9<k>", b"\t<k>", b"<k>\r"):
            group.add(
                f"{name} odd key {key!r}",
                command + b" " + key + b" 0 0 2" + tail + b"\r\nab\r\n",
                b"get " + key + b"\r\n",
            )
        for unfinished in (b" <k> 0 0 2", b" <k> 0 0 10\r\nabc", b" <k> 0 0 2\r\nab", b" <k> 0 0 2\r\nab\r", b""):
            line = command + unfinished.replace(b"\r\n", tail + b"\r\n", 1)
            group.add(f"{name} cut short {unfinished!r}", setup, SHOW, line, ends_open=True)
    for wrong in (
        b"SET",
        b"Set",
        b"sett",
        b"se",
        b"s",
        b"addd",
        b"ad",
        b"cass",
        b"ca",
        b"appends",
        b"prepen",
        b"replac",
    ):
        group.add(f"no such command {wrong!r}", wrong + b" <k> 0 0 2\r\nab\r\n", SHOW)


def add_cas(group: Group) -> None:
    for offset, what in (
        (b"", "right"),
        (b"+1", "next"),
        (b"-1", "earlier"),
        (b"+4294967296", "right in its low half"),
    ):
        group.add(
            f"cas with the {what} number",
            store(b"<k>", b"one") + store(b"<k>", b"two") + store(b"<k>", b"three"),
            b"gets <k>\r\n",
            b"cas <k> 0 0 4 <cas0%s>\r\nfour\r\n" % offset,
            b"gets <k>\r\n",
        )
    for change in (
        store(b"<k>", b"new"), b"append <k> 0 0 1\r\nx\r\n", b"prepend <k> 0 0 1\r\nx\r\n",
        b"replace <k> 0 0 1\r\nx\r\n",
        b"incr <k> 1\r\n", b"decr <k> 1\r\n", b"touch <k> 100\r\n", b"gat 100 <k>\r\n", b"get <k>\r\n",
        b"add <k> 0 0 1\r\nx\r\n", b"delete <k>\r\n", b"delete <k>\r\n" + store(b"<k>", b"new"), b"flush_all\r\n",
        b"mg <k> v t\r\n", b"mg <k> T90\r\n", b"md <k> I\r\n", b"ma <k>\r\n", b"ms <k> 1 MA\r\ny\r\n", b"me <k>\r\n",
    ):  # fmt: skip
        group.add(
            f"cas after {change[:20]!r}",
            store(b"<k>", b"10"),
            b"gets <k>\r\n",
            change,
            b"cas <k> 5 0 3 <cas0>\r\nnew\r\n",
            b"gets <k>\r\n",
        )
    group.add(
        "cas twice with one number",
        store(b"<k>", b"1"),
        b"gets <k>\r\n",
        b"cas <k> 0 0 1 <cas0>\r\n2\r\n",
        b"cas <k> 0 0 1 <cas0>\r\n3\r\n",
        b"gets <k>\r\n",
        b"cas <k> 0 0 1 <cas1> noreply\r\n4\r\n",
        b"gets <k>\r\n",
    )
    group.add(
        "cas of one key with another's number",
        store(b"<k>", b"1") + store(b"<j>", b"2"),
        b"gets <k> <j>\r\n",
        b"cas <k> 0 0 1 <cas1>\r\n3\r\n",
        b"cas <j> 0 0 1 <cas0>\r\n3\r\n",
        b"gets <k> <j>\r\n",
    )


def build() -> Group:
    group = Group("storage")
    add_grid(group)
    add_numbers(group)
    add_shapes(group)
    add_cas(group)
    for count in (2, 10, 60):
        steps = [store(b"<k>", b"0")] + [b"append <k> 0 0 2\r\n%02d\r\n" % n for n in range(count)]
        group.add(f"{count} appends", *steps, SHOW)
        steps = [store(b"<k>", b"0")] + [b"prepend <k> 0 0 2\r\n%02d\r\n" % n for n in range(count)]
        group.add(f"{count} prepends", *steps, SHOW)
    return group
