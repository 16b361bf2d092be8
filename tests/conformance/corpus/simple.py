"""The text commands without a data block: delete, incr, decr, touch, flush_all, verbosity, version, quit, stats."""

from conformance.corpus.case import EXPIRIES, NUMBERS, Group, store

SHOW = b"get <k>\r\n"
COUNTERS = (
    b"0", b"1", b"9", b"10", b"99", b"100", b"007",
    b"9223372036854775807", b"1000000000000000000000", b"18446744073709551616",
    b"12 ", b" 12", b"12 34", b"12\t", b"12x", b"x12", b"1.5", b"-1", b"-0", b"+5", b"", b"\0", b"5\0", b"0x10",
    b"7\r\n",
)  # fmt: skip
DELTAS = (b"0", b"1", b"2", b"90", b"9223372036854775807", b"9223372036854775808", b"18446744073709551615")
LENGTHS = (1, 249, 250, 251, 252, 1000)


def build_delete() -> Group:
    group = Group("delete")
    for tail in (b"", b" ", b" 0", b" 0 ", b" noreply", b" 0 noreply", b" 1", b" -0", b" 00", b" noreply 0", b" 0 0",
                 b" noreply noreply", b" 0 noreply x", b" x", b" 0 x", b" NOREPLY", b" 10 noreply",
                 b" a b c d e"):  # fmt: skip
        for setup in (store(b"<k>", b"v"), b"version\r\n"):
            group.add(f"delete{tail!r}", setup, b"delete <k>" + tail + b"\r\n", SHOW)
    group.add("no key", b"delete\r\n", b"delete \r\n", b"delete noreply\r\n", b"delete 0\r\n")
    group.add("twice", store(b"<k>", b"v"), b"delete <k>\r\n", b"delete <k>\r\n", SHOW)
    group.add("then add", store(b"<k>", b"v"), b"delete <k>\r\n", b"add <k> 1 0 1\r\nw\r\n", SHOW)
    group.add("expired", store(b"<k>", b"v", b"0", b"-1"), b"delete <k>\r\n")
    group.add("only the named key", store(b"<k>", b"v") + store(b"<j>", b"w"), b"delete <k>\r\n", b"get <k> <j>\r\n")
    for length in LENGTHS:
        key = b"<k=%d>" % length
        group.add(f"key of {length} bytes", b"delete " + key + b"\r\n", b"delete " + key + b" noreply\r\n")
    for wrong in (b"DELETE", b"del", b"delet", b"deletes", b"d", b"de"):
        group.add(f"no such command {wrong!r}", store(b"<k>", b"v"), wrong + b" <k>\r\n", SHOW)
    return group


def build_arithmetic() -> Group:
    group = Group("arithmetic")
    for command in (b"incr", b"decr"):
        name = command.decode()
        for counter in COUNTERS:
            for delta in DELTAS:
                group.add(
                    f"{name} {counter!r} by {delta.decode()}",
                    store(b"<k>", counter, b"6", b"700"),
                    command + b" <k> " + delta + b"\r\n",
                    b"mg <k> f s t v\r\n",
                )
        for number in NUMBERS:
            group.add(f"{name} delta {number!r}", store(b"<k>", b"50"), command + b" <k> " + number + b"\r\n", SHOW)
        group.add(f"{name} absent", command + b" <k> 1\r\n", SHOW)
        group.add(f"{name} expired", store(b"<k>", b"5", b"0", b"-1"), command + b" <k> 1\r\n", SHOW)
        for tail in (
            b" 1 noreply",
            b" 1 x",
            b" noreply",
            b" 1 noreply x",
            b" 1 2 3 4",
            b"",
            b" ",
            b" 1 NOREPLY",
            b" x noreply",
        ):
            for setup in (store(b"<k>", b"5"), store(b"<k>", b"word"), b"version\r\n"):
                group.add(f"{name} <k>{tail!r}", setup, command + b" <k>" + tail + b"\r\n", SHOW)
        group.add(f"{name} without words", command + b"\r\n", command + b" \r\n")
        for length in LENGTHS:
            key = b"<k=%d>" % length
            group.add(
                f"{name} key of {length} bytes",
                command + b" " + key + b" 1\r\n",
                command + b" " + key + b" 1 noreply\r\n",
            )
        group.add(f"{name} a big value", store(b"<k>", b"1" * 5000), command + b" <k> 1\r\n")
        group.add(
            f"{name} changes the CAS", store(b"<k>", b"5"), b"gets <k>\r\n", command + b" <k> 1\r\n", b"gets <k>\r\n"
        )
        group.add(
            f"{name} by 0 changes the CAS",
            store(b"<k>", b"5"),
            b"gets <k>\r\n",
            command + b" <k> 0\r\n",
            b"gets <k>\r\n",
        )
        for wrong in (command.upper(), command + b"s", command[:3], command + b"\t"):
            group.add(f"no such command {wrong!r}", store(b"<k>", b"5"), wrong + b" <k> 1\r\n", SHOW)
    group.add("down through a lost digit", store(b"<k>", b"101"), *[b"decr <k> 1\r\n", b"mg <k> s v\r\n"] * 4)
    group.add("up through a new digit", store(b"<k>", b"98"), *[b"incr <k> 1\r\n", b"mg <k> s v\r\n"] * 4)
    group.add(
        "append to a padded number",
        store(b"<k>", b"10"),
        b"decr <k> 1\r\n",
        b"append <k> 0 0 1\r\n5\r\n",
        SHOW,
        b"incr <k> 1\r\n",
        SHOW,
    )
    group.add("keeps flags when it grows", store(b"<k>", b"9", b"77", b"300"), b"incr <k> 1\r\n", b"mg <k> f t v\r\n")
    return group


def build_large_counters() -> Group:
    """Counters of 2^63 and more, on servers that have seen no minus sign: memcached searches for one behind the number,
    through whatever its memory held before. Run by a test of its own."""
    group = Group("largecounters")
    for counter in (b"9223372036854775808", b"18446744073709551614", b"18446744073709551615"):
        for delta in DELTAS:
            for command in (b"incr <k> %s", b"decr <k> %s", b"ma <k> v t D%s", b"ma <k> v MD D%s c"):
                line = command % delta + b"\r\n"
                group.add(
                    f"{line!r} on {counter!r}", store(b"<k>", counter), line, b"mg <k> s v\r\n", line, b"get <k>\r\n"
                )
    return group


def build_touch() -> Group:
    group = Group("touch")
    for number in EXPIRIES:
        group.add(
            f"exptime {number!r}",
            store(b"<k>", b"v", b"3", b"60"),
            b"touch <k> " + number + b"\r\n",
            b"mg <k> t v f\r\n",
        )
        group.add(f"exptime {number!r}, absent", b"touch <k> " + number + b"\r\n", SHOW)
    for tail in (
        b" 0 noreply",
        b" 100 noreply",
        b" noreply",
        b"",
        b" ",
        b" 90 2",
        b" 90 2 3",
        b" x noreply",
        b" 100 NOREPLY",
        b" noreply 100",
    ):
        for setup in (store(b"<k>", b"v", b"0", b"50"), b"version\r\n"):
            group.add(f"touch <k>{tail!r}", setup, b"touch <k>" + tail + b"\r\n", b"mg <k> t v\r\n")
    for length in LENGTHS:
        key = b"<k=%d>" % length
        group.add(f"key of {length} bytes", b"touch " + key + b" 0\r\n", b"touch " + key + b" 0 noreply\r\n")
    group.add("without words", b"touch\r\n", b"touch \r\n")
    group.add("marks an item fetched", store(b"<k>", b"v"), b"touch <k> 0\r\n", b"me <k>\r\n")
    for wrong in (b"TOUCH", b"touc", b"touchs", b"to", b"t"):
        group.add(f"no such command {wrong!r}", store(b"<k>", b"v"), wrong + b" <k> 0\r\n")
    return group


def build_server() -> Group:
    group = Group("server")
    both = store(b"<k>", b"v") + store(b"<j>", b"w")
    for tail in (b"", b" ", b" 0", b" -1", b" -2147483648", b" noreply", b" 0 noreply", b" abc", b" abc noreply",
                 b" 0 1", b" 0 noreply x",
                 b" noreply noreply", b" noreply 0", b" 1x", b" 0\t", b" 18446744073709551616", b" NOREPLY",
                 b" 2592001"):  # fmt: skip
        group.add(
            f"flush_all{tail!r}",
            both,
            b"flush_all" + tail + b"\r\n",
            b"get <k> <j>\r\n",
            store(b"<k>", b"new"),
            SHOW,
            b"flush_all\r\n",
        )
    for tail in (b" 1000", b" 1000 noreply", b" 2592000"):  # a delay that the next flush_all ends
        group.add(
            f"flush_all{tail!r}",
            both,
            b"flush_all" + tail + b"\r\n",
            b"get <k> <j>\r\n",
            b"flush_all\r\n",
            b"get <k> <j>\r\n",
        )
    group.add("flush_all and every command after it", both + store(b"<i>", b"5"), b"flush_all\r\n",
              b"add <k> 0 0 1\r\na\r\n",
              b"replace <j> 0 0 1\r\nb\r\n", b"append <j> 0 0 1\r\nb\r\n", b"incr <i> 1\r\n", b"touch <i> 0\r\n",
              b"delete <i>\r\n",
              b"gets <k> <j> <i>\r\n", b"cas <j> 0 0 1 77777777777\r\nc\r\n", b"mg <i> v\r\n", b"ma <i>\r\n",
              b"md <i>\r\n")  # fmt: skip
    for tail in (
        b"",
        b" ",
        b" 0",
        b" 1",
        b" 1 noreply",
        b" noreply",
        b" abc",
        b" abc noreply",
        b" -1",
        b" 1 2",
        b" 1 2 3",
        b" 99",
        b" 4294967296",
    ):
        group.add(f"verbosity{tail!r}", b"verbosity" + tail + b"\r\n", b"verbosity 0\r\n")
    for tail in (b"", b" ", b" x", b" noreply", b" 1 2 3 4 5"):
        group.add(f"version{tail!r}", b"version" + tail + b"\r\n")
        group.add(f"quit{tail!r}", b"version\r\n", b"quit" + tail + b"\r\n", closes=True)
        group.add(
            f"quit{tail!r} and more in its packet",
            b"version\r\nquit" + tail + b"\r\nversion\r\nversion\r\n",
            closes=True,
        )
    group.add("quit is not set", b"quit\r\n" + store(b"<k>", b"v"), closes=True)
    for wrong in (
        b"FLUSH_ALL",
        b"flush",
        b"flush_al",
        b"flush_alls",
        b"verbose",
        b"Version",
        b"versions",
        b"qui",
        b"quitt",
        b"QUIT",
    ):
        group.add(f"no such command {wrong!r}", wrong + b"\r\n", wrong + b" 0\r\n")
    for tail in (
        b" reset",
        b" reset x",
        b" nosuch",
        b" noreply",
        b" Settings",
        b" sizes",
        b" sizes_disable",
        b" items x y",
        b" resets",
        b" \xff\xfe",
    ):
        if tail != b" items x y":
            group.add(f"stats{tail!r}", b"stats" + tail + b"\r\n")
    group.add("stats sizes on and off", b"stats sizes_enable\r\n", b"stats sizes_disable\r\n", b"stats sizes\r\n")
    for wrong in (b"STATS", b"stat", b"statss", b"stats\treset"):
        group.add(f"no such command {wrong!r}", wrong + b"\r\n")
    return group


def build_administration() -> Group:
    """Commands of administration, where the answer does not depend on what the server holds."""
    group = Group("administration")
    for line in (b"shutdown", b"shutdown graceful", b"slabs", b"slabs automove", b"slabs automove x",
                 b"slabs reassign 1", b"lru",
                 b"lru x", b"lru noreply", b"lru x y", b"lru tune", b"lru tune 1 2", b"lru tune 90 20 0.1 2",
                 b"lru tune 10 25 0 2", b"lru tune 10 25 x 2", b"lru tune 10 25 0.1 2.0",
                 b"lru tune 10 25 0.1 2 noreply", b"lru mode x", b"lru mode x noreply", b"slabs reassign 1 x",
                 b"slabs reassign 1 1", b"slabs reassign 1 99", b"slabs reassign 1 1 noreply", b"slabs automove 3",
                 b"slabs automove -1", b"slabs automove ratio 0.5", b"slabs automove ratio", b"slabs automove 1",
                 b"cache_memlimit 7", b"cache_memlimit 7 noreply", b"cache_memlimit 2000000000",
                 b"cache_memlimit 64", b"cache_memlimit 64 noreply", b"stats cachedump", b"stats cachedump 1",
                 b"stats cachedump x 0", b"stats cachedump 0 0", b"stats cachedump 63 0", b"stats cachedump 300 0",
                 b"stats cachedump 1 x", b"stats cachedump 1 -1", b"stats detail", b"stats detail x",
                 b"stats detail off", b"shutdown x", b"shutdown graceful x", b"lru_crawler", b"lru_crawler x",
                 b"lru_crawler sleep x", b"lru_crawler sleep 1000001", b"cache_memlimit", b"cache_memlimit x",
                 b"cache_memlimit 1", b"cache_memlimit 1 2 3", b"watch nosuch", b"watch noreply", b"extstore",
                 b"refresh"):  # fmt: skip
        quirk = "says so when it is not the first of its packet" if line.startswith(b"watch") else ""
        group.add(repr(line), line + b"\r\n", quirk=quirk)
    return group
