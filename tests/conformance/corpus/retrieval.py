"""get, gets, gat, gats (and bget, get's old name)."""

from conformance.corpus.case import EXPIRIES, Group, store

TWENTY = b"".join(store(b"<k>%d" % n, b"v%d" % n, b"%d" % n) for n in range(20))
COMMANDS = (b"get", b"gets", b"gat 0", b"gats 0", b"gat 1000", b"gats -1", b"bget")


def build() -> Group:
    group = Group("retrieval")
    for command in COMMANDS:
        line = command + b" "
        for count in (1, 2, 3, 10, 21, 22, 23, 24, 25, 46, 47, 48, 100):
            hits = b" ".join(b"<k>%d" % (n % 20) for n in range(count))
            misses = b" ".join(b"<j>%d" % n for n in range(count))
            mixed = b" ".join((b"<k>%d" if n % 3 else b"<j>%d") % (n % 20) for n in range(count))
            for keys in (hits, misses, mixed):
                group.add(f"{line.decode()}of {count} keys", TWENTY, line + keys + b"\r\n")
        group.add(f"{line.decode()}the same key twice", store(b"<k>", b"v"), line + b"<k> <k> <k>\r\n")
        for spaced in (b"<k> ", b" <k>", b"  <k>   <j>  ", b"<k>\t", b"\t<k>", b"<k> \t <j>", b"<k>\r", b"<k>\r\r"):
            group.add(f"{line.decode()}spaces {spaced!r}", store(b"<k>", b"v"), line + spaced + b"\r\n")
        group.add(f"{line.decode()}line feed only", store(b"<k>", b"v"), line + b"<k>\n")
        group.add(f"{line.decode()}indented", store(b"<k>", b"v"), b"   " + line + b"<k>\r\n")
        for length in (1, 2, 100, 249, 250, 251, 252, 500, 1000):
            exact = b"<k=%d>" % length
            group.add(
                f"{line.decode()}a key of {length} bytes",
                line + exact + b"\r\n",
                store(exact, b"v") if length <= 250 else b"version\r\n",
                line + exact + b"\r\n",
                b"delete " + exact + b"\r\n",
                quirk="an over-long key drops the earlier answers of its packet" if length > 250 else "",
            )
        long_key = b"q" * 251
        for keys in (b"<k> " + long_key, long_key + b" <k>", b"<k> " * 30 + long_key, b"<j> " + long_key + b" <k>"):
            group.add(
                f"{line.decode()}an over-long key among others",
                store(b"<k>", b"v"),
                line + keys + b"\r\n",
                quirk="an over-long key drops the earlier answers of its packet",
            )
        for key in (b"\xff\xfe<k>", b"<k>\x01\x02", b"<k>\x7f", b"caf\xc3\xa9<k>", b"<k>=:/*%s%n", b"noreply<k>"):
            group.add(f"{line.decode()}odd key {key!r}", store(key, b"odd", b"7"), line + key + b"\r\n")
        group.add(f"{line.decode()}empty value", store(b"<k>", b""), line + b"<k>\r\n")
        group.add(f"{line.decode()}flags", store(b"<k>", b"v", b"4294967295"), line + b"<k>\r\n")
        group.add(f"{line.decode()}deleted key", store(b"<k>", b"v"), b"delete <k>\r\n", line + b"<k>\r\n")
        group.add(f"{line.decode()}expired key", store(b"<k>", b"v", b"0", b"-1"), line + b"<k>\r\n")
        for value in (b"END", b"\r\nEND\r\n", b"VALUE x 0 1\r\n", b"\r\n" * 20, bytes(range(256)), b"\0" * 33):
            group.add(f"{line.decode()}value {value[:16]!r}", store(b"<k>", value), line + b"<k>\r\n")
    for bare in (b"get", b"gets", b"gat", b"gats", b"get ", b"gets  ", b"gat 0", b"gats 10", b"gat 0 ", b"gat abc"):
        group.add(f"no key: {bare!r}", bare + b"\r\n", b"mn\r\n")
    for odd in (b"GET", b"Get", b"getx", b"gett", b"ge", b"g", b"gat0", b"getss", b"bgets", b"gets\tx", b"gats\xff"):
        group.add(f"no such command: {odd!r}", store(b"<k>", b"v"), odd + b" <k>\r\n")
    for command in (b"gat", b"gats"):
        for number in EXPIRIES:
            group.add(
                f"{command.decode()} exptime {number!r}",
                store(b"<k>", b"v") + store(b"<j>", b"w", b"5", b"100"),
                command + b" " + number + b" <k> <j>\r\n",
                b"mg <k> t v\r\n",
                b"mg <j> t v\r\n",
            )
        group.add(f"{command.decode()} key in place of exptime", store(b"<k>", b"v"), command + b" <k> <k>\r\n")
        group.add(
            f"{command.decode()} marks an item fetched", store(b"<k>", b"v"), command + b" 0 <k>\r\n", b"me <k>\r\n"
        )
    for command in (b"get", b"gets"):
        group.add(
            f"{command.decode()} marks an item fetched", store(b"<k>", b"v"), command + b" <k>\r\n", b"me <k>\r\n"
        )
        group.add(
            f"{command.decode()} CAS stays while the item does",
            store(b"<k>", b"v"),
            command + b" <k>\r\n",
            b"gets <k>\r\n",
            b"touch <k> 100\r\n",
            b"gets <k>\r\n",
            store(b"<k>", b"v"),
            b"gets <k> <k>\r\n",
        )
    return group
