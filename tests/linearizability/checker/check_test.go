package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
)

// op is an operation by hand: the times are microseconds.
func op(process uint64, kind string, called, returned int64, outcome string, more ...func(*operation)) *operation {
	o := &operation{process: process, burst: uint64(called), kind: kind, key: "k", called: called * 1000,
		returned: returned * 1000, outcome: outcome, readFlags: notShown, left: notShown}
	if outcome == "unknown" {
		o.returned = never
	}
	for _, change := range more {
		change(o)
	}
	return o
}

func value(v string) func(*operation)    { return func(o *operation) { o.value = v } }
func reads(v string) func(*operation)    { return func(o *operation) { o.read = v } }
func cas(id uint64) func(*operation)     { return func(o *operation) { o.cas = id } }
func expects(id uint64) func(*operation) { return func(o *operation) { o.expected = id } }
func by(n uint64) func(*operation)       { return func(o *operation) { o.delta = n } }
func ttl(s int64) func(*operation)       { return func(o *operation) { o.ttl = s } }
func left(s int64) func(*operation)      { return func(o *operation) { o.left = s } }
func flags(n int64) func(*operation)     { return func(o *operation) { o.flags = n } }
func flagged(n int64) func(*operation)   { return func(o *operation) { o.readFlags = n } }

type example struct {
	name string
	all  []*operation
}

var good = []example{
	{"nothing", nil},
	{"a miss", []*operation{op(0, "get", 0, 1, "miss")}},
	{"a read beside a write sees the old", []*operation{
		op(0, "set", 0, 10, "stored", value("a1")), op(1, "get", 1, 2, "miss")}},
	{"a read beside a write sees the new", []*operation{
		op(0, "set", 0, 10, "stored", value("a1")), op(1, "get", 1, 2, "hit", reads("a1"))}},
	{"two writes in either order", []*operation{
		op(0, "set", 0, 10, "stored", value("a1")), op(1, "set", 0, 10, "stored", value("a2")),
		op(2, "get", 11, 12, "hit", reads("a1"))}},
	{"an add, a delete, an add", []*operation{
		op(0, "add", 0, 10, "stored", value("a1")), op(1, "delete", 0, 10, "removed"),
		op(2, "add", 0, 10, "stored", value("a2")), op(0, "get", 11, 12, "hit", reads("a2"))}},
	{"counting at once", []*operation{
		op(0, "set", 0, 1, "stored", value("10")), op(1, "incr", 2, 9, "number", by(1), reads("12")),
		op(2, "incr", 2, 9, "number", by(1), reads("11"))}},
	{"down to zero and no further", []*operation{
		op(0, "set", 0, 1, "stored", value("3")), op(0, "decr", 2, 3, "number", by(5), reads("0"))}},
	{"no number", []*operation{
		op(0, "set", 0, 1, "stored", value("a1")), op(0, "incr", 2, 3, "not_a_number", by(5))}},
	{"pieces at both ends", []*operation{
		op(0, "set", 0, 1, "stored", value("a1")), op(0, "append", 2, 3, "stored", value("a2")),
		op(0, "prepend", 4, 5, "stored", value("a3")), op(0, "get", 6, 7, "hit", reads("a3,a1,a2"))}},
	{"times and flags that a count keeps", []*operation{
		op(0, "set", 0, 1, "stored", value("10"), ttl(9000), flags(7)), op(0, "incr", 2, 3, "number", by(1), reads("11")),
		op(0, "get", 3_000_000, 3_000_001, "hit", reads("11"), left(8997), flagged(7)),
		op(0, "touch", 3_000_002, 3_000_003, "touched"),
		op(0, "get", 3_000_004, 3_000_005, "hit", reads("11"), left(neverExpires), flagged(7))}},
	{"a cas won and one lost", []*operation{
		op(0, "set", 0, 1, "stored", value("a1"), cas(7)),
		op(1, "cas", 2, 9, "stored", value("a2"), expects(7), cas(8)),
		op(2, "cas", 2, 9, "exists", value("a3"), expects(7)), op(0, "get", 10, 11, "hit", reads("a2"), cas(8))}},
	{"a chain of exchanges", []*operation{
		op(0, "exchange", 0, 20, "hit", value("a1"), reads("a2"), cas(8), expects(7), flags(3), flagged(5)),
		op(1, "exchange", 0, 20, "stored", value("a2"), cas(7), flags(5)),
		op(2, "exchange", 0, 20, "hit", value("a3"), reads("a1"), flagged(3)),
		op(3, "take", 0, 20, "removed", reads("a3")), op(0, "take", 30, 31, "miss")}},
	{"an exchange of what has expired", []*operation{
		op(0, "set", 2_000_000, 2_000_001, "stored", value("a1"), ttl(2)),
		op(0, "exchange", 4_000_000, 4_000_001, "stored", value("a2")),
		op(0, "get", 4_000_002, 4_000_003, "hit", reads("a2"), left(neverExpires))}},
	{"an exchange and a take without an answer", []*operation{
		op(0, "exchange", 0, 0, "unknown", value("a1")), op(1, "get", 5, 6, "hit", reads("a1")),
		op(2, "take", 7, 0, "unknown"), op(1, "get", 9, 10, "miss")}},
	{"a smaller id after a delete", []*operation{
		op(0, "set", 0, 1, "stored", value("a1"), cas(70)), op(0, "delete", 2, 3, "removed"),
		op(0, "add", 4, 5, "stored", value("a2"), cas(7))}},
	{"without an answer, and done", []*operation{
		op(0, "set", 0, 0, "unknown", value("a1")), op(1, "get", 5, 6, "miss"), op(1, "get", 7, 8, "hit", reads("a1"))}},
	{"without an answer, and never done", []*operation{
		op(0, "set", 0, 0, "unknown", value("a1")), op(1, "get", 50, 60, "miss")}},
	{"an add without an answer that finds the item gone", []*operation{
		op(0, "set", 2_000_000, 2_000_001, "stored", value("a1"), ttl(2)),
		op(1, "add", 2_000_003, 2_000_003, "unknown", value("a2")),
		op(0, "get", 4_500_000, 4_500_001, "hit", reads("a2"))}},
	{"a pipeline in its order", []*operation{
		op(0, "set", 0, 9, "stored", value("a1")), op(0, "get", 0, 9, "hit", reads("a1")), op(0, "delete", 0, 9, "removed")}},
	{"expired when its time has come", []*operation{
		op(0, "set", 2_000_000, 2_000_001, "stored", value("a1"), ttl(2)), op(0, "get", 4_000_000, 4_000_001, "miss")}},
	{"touched in time", []*operation{
		op(0, "set", 2_000_000, 2_000_001, "stored", value("a1"), ttl(2)),
		op(0, "touch", 2_000_002, 2_000_003, "touched", ttl(30)),
		op(0, "get", 9_000_000, 9_000_001, "hit", reads("a1"))}},
	{"flushed", []*operation{
		op(0, "set", 0, 1, "stored", value("a1")), op(1, "flush", 2, 3, "flushed"), op(0, "get", 4, 5, "miss")}},
}

var bad = []example{
	{"a value from nowhere", []*operation{op(0, "get", 0, 1, "hit", reads("a1"))}},
	{"a lost write", []*operation{op(0, "set", 0, 1, "stored", value("a1")), op(0, "get", 2, 3, "miss")}},
	{"a stale read", []*operation{
		op(0, "set", 0, 1, "stored", value("a1")), op(0, "set", 2, 3, "stored", value("a2")),
		op(1, "get", 4, 5, "hit", reads("a1"))}},
	{"new, then old", []*operation{
		op(0, "set", 0, 1, "stored", value("a1")), op(0, "set", 2, 20, "stored", value("a2")),
		op(1, "get", 3, 4, "hit", reads("a2")), op(2, "get", 5, 6, "hit", reads("a1"))}},
	{"two adds both win", []*operation{
		op(0, "add", 0, 10, "stored", value("a1")), op(1, "add", 0, 10, "stored", value("a2"))}},
	{"a deleted item comes back", []*operation{
		op(0, "set", 0, 1, "stored", value("a1")), op(0, "delete", 2, 3, "removed"),
		op(1, "get", 4, 5, "miss"), op(1, "get", 6, 7, "hit", reads("a1"))}},
	{"one item deleted twice", []*operation{
		op(0, "set", 0, 1, "stored", value("a1")), op(1, "delete", 2, 9, "removed"), op(2, "delete", 2, 9, "removed")}},
	{"one old value handed over twice", []*operation{
		op(0, "set", 0, 1, "stored", value("a1")), op(1, "exchange", 2, 9, "hit", value("a2"), reads("a1")),
		op(2, "exchange", 2, 9, "hit", value("a3"), reads("a1"))}},
	{"one item taken twice", []*operation{
		op(0, "set", 0, 1, "stored", value("a1")), op(1, "take", 2, 9, "removed", reads("a1")),
		op(2, "take", 2, 9, "removed", reads("a1"))}},
	{"an old value that is handed to nobody", []*operation{
		op(0, "set", 0, 1, "stored", value("a1")), op(1, "exchange", 2, 3, "stored", value("a2"))}},
	{"an old value that has expired", []*operation{
		op(0, "set", 2_000_000, 2_000_001, "stored", value("a1"), ttl(2)),
		op(0, "exchange", 9_000_000, 9_000_001, "hit", value("a2"), reads("a1"))}},
	{"an exchange that stores nothing", []*operation{
		op(0, "set", 0, 1, "stored", value("a1")), op(1, "exchange", 2, 3, "hit", value("a2"), reads("a1")),
		op(0, "get", 4, 5, "hit", reads("a1"))}},
	{"a take that removes nothing", []*operation{
		op(0, "set", 0, 1, "stored", value("a1")), op(1, "take", 2, 3, "removed", reads("a1")),
		op(0, "get", 4, 5, "hit", reads("a1"))}},
	{"an old value with another id", []*operation{
		op(0, "set", 0, 1, "stored", value("a1"), cas(7)), op(1, "take", 2, 3, "removed", reads("a1"), expects(6))}},
	{"an old value with the new one's id", []*operation{
		op(0, "set", 0, 1, "stored", value("a1"), cas(7)),
		op(1, "exchange", 2, 3, "hit", value("a2"), reads("a1"), expects(7), cas(7))}},
	{"an old value with other flags", []*operation{
		op(0, "set", 0, 1, "stored", value("a1"), flags(7)), op(1, "take", 2, 3, "removed", reads("a1"), flagged(8))}},
	{"a lost count", []*operation{
		op(0, "set", 0, 1, "stored", value("10")), op(1, "incr", 2, 9, "number", by(1), reads("11")),
		op(2, "incr", 2, 9, "number", by(1), reads("11"))}},
	{"a lost piece", []*operation{
		op(0, "set", 0, 1, "stored", value("a1")), op(1, "append", 2, 9, "stored", value("a2")),
		op(2, "append", 2, 9, "stored", value("a3")), op(0, "get", 10, 11, "hit", reads("a1,a3"))}},
	{"two winners of one cas", []*operation{
		op(0, "set", 0, 1, "stored", value("a1"), cas(7)), op(1, "cas", 2, 9, "stored", value("a2"), expects(7), cas(8)),
		op(2, "cas", 2, 9, "stored", value("a3"), expects(7), cas(9))}},
	{"a cas that wins by an old id", []*operation{
		op(0, "set", 0, 1, "stored", value("a1"), cas(7)), op(0, "set", 2, 3, "stored", value("a2")),
		op(1, "cas", 4, 5, "stored", value("a3"), expects(7))}},
	{"a cas refused for nothing", []*operation{
		op(0, "set", 0, 1, "stored", value("a1"), cas(7)), op(1, "cas", 2, 3, "exists", value("a2"), expects(7))}},
	{"a write that keeps the id", []*operation{
		op(0, "set", 0, 1, "stored", value("a1"), cas(7)), op(0, "set", 2, 3, "stored", value("a2")),
		op(1, "get", 4, 5, "hit", reads("a2"), cas(7))}},
	{"a pipeline that reads before its own write", []*operation{
		op(0, "set", 0, 1, "stored", value("a1")), op(0, "set", 2, 9, "stored", value("a2")),
		op(0, "get", 2, 9, "hit", reads("a1"))}},
	{"a pipeline that sees its own future", []*operation{
		op(0, "get", 0, 9, "hit", reads("a1")), op(0, "set", 0, 9, "stored", value("a1"))}},
	{"a write without an answer that comes and goes", []*operation{
		op(0, "set", 0, 0, "unknown", value("a1")), op(1, "get", 5, 6, "hit", reads("a1")), op(1, "get", 7, 8, "miss")}},
	{"a touch of nothing", []*operation{op(0, "touch", 0, 1, "touched")}},
	{"a replace of nothing", []*operation{op(0, "replace", 0, 1, "stored", value("a1"))}},
	{"a set refused", []*operation{op(0, "set", 0, 1, "not_stored", value("a1"))}},
	{"gone before its time", []*operation{
		op(0, "set", 2_900_000, 2_900_001, "stored", value("a1"), ttl(3)), op(0, "get", 3_000_000, 3_000_001, "miss")}},
	{"there long after its time", []*operation{
		op(0, "set", 2_000_000, 2_000_001, "stored", value("a1"), ttl(2)),
		op(0, "get", 6_000_000, 6_000_001, "hit", reads("a1"))}},
	{"expired, and back", []*operation{
		op(0, "set", 2_000_000, 2_000_001, "stored", value("a1"), ttl(2)), op(0, "get", 4_000_000, 4_000_001, "miss"),
		op(0, "get", 4_000_002, 4_000_003, "hit", reads("a1"))}},
	{"there after a flush", []*operation{
		op(0, "set", 0, 1, "stored", value("a1")), op(1, "flush", 2, 3, "flushed"),
		op(0, "get", 4, 5, "hit", reads("a1"))}},
	{"a touch lost beside a count", []*operation{
		op(0, "set", 0, 1, "stored", value("10"), ttl(5000)), op(1, "touch", 2, 9, "touched", ttl(9000)),
		op(2, "incr", 2, 9, "number", by(1), reads("11")), op(0, "get", 10, 11, "hit", reads("11"), left(5000))}},
	{"a touch that outlives the next set", []*operation{
		op(0, "set", 0, 1, "stored", value("a1")), op(1, "touch", 2, 9, "touched", ttl(9000)),
		op(0, "set", 10, 11, "stored", value("a2")), op(0, "get", 12, 13, "hit", reads("a2"), left(9000))}},
	{"a time that none was given", []*operation{
		op(0, "set", 0, 1, "stored", value("a1"), ttl(9000)), op(0, "get", 12, 13, "hit", reads("a1"), left(neverExpires))}},
	{"flags of another write", []*operation{
		op(0, "set", 0, 1, "stored", value("a1"), flags(3)), op(0, "append", 2, 3, "stored", value("a2")),
		op(0, "get", 4, 5, "hit", reads("a1,a2"), flagged(0))}},
	{"out of memory where there is enough", []*operation{op(0, "set", 0, 1, "no_memory", value("a1"))}},
}

func TestGoodHistories(t *testing.T) {
	for _, e := range good {
		if result := (rules{allAnswers: true}).check(e.all); result != porcupine.Ok {
			t.Errorf("%s: %v", e.name, result)
		}
		if result := (rules{allAnswers: true, mayVanish: true}).check(e.all); result != porcupine.Ok {
			t.Errorf("%s, where items may vanish: %v", e.name, result)
		}
	}
}

func TestBadHistories(t *testing.T) {
	for _, e := range bad {
		r := rules{allAnswers: true}
		if result := r.check(e.all); result != porcupine.Illegal {
			t.Errorf("%s: %v", e.name, result)
			continue
		}
		part, under, _ := r.shorten(e.all)
		if len(part) == 0 || len(part) > len(e.all) || under.check(part) != porcupine.Illegal {
			t.Errorf("%s: what is shown of it is no violation:\n%s", e.name, table(part))
		}
	}
}

func TestItemsVanishOnlyWhereTheyMay(t *testing.T) {
	vanished := []*operation{op(0, "set", 0, 1, "stored", value("a1")), op(0, "get", 2, 3, "miss")}
	if result := (rules{mayVanish: true}).check(vanished); result != porcupine.Ok {
		t.Errorf("vanished: %v", result)
	}
	back := append(vanished, op(0, "get", 4, 5, "hit", reads("a1")))
	if result := (rules{mayVanish: true}).check(back); result != porcupine.Illegal {
		t.Errorf("vanished, and back: %v", result)
	}
}

func TestAFullStoreRefusesAndKeepsTheRest(t *testing.T) {
	full := rules{mayRefuse: true}
	for _, refused := range []*operation{
		op(0, "add", 2, 3, "no_memory", value("a2")), op(0, "append", 2, 3, "no_memory", value("a2")),
		op(0, "incr", 2, 3, "no_memory", by(1)), op(0, "exchange", 2, 3, "no_memory", value("a2")), op(0, "cas", 2, 3, "no_memory", value("a2"), expects(9))} {
		kept := []*operation{op(0, "set", 0, 1, "stored", value("a1")), refused, op(0, "get", 4, 5, "hit", reads("a1"))}
		if result := full.check(kept); result != porcupine.Ok {
			t.Errorf("%s: %v", refused.kind, result)
		}
		kept[2] = op(0, "get", 4, 5, "miss")
		if result := full.check(kept); result != porcupine.Illegal {
			t.Errorf("%s, and the item has gone: %v", refused.kind, result)
		}
	}
	for _, read := range []*operation{op(0, "get", 4, 5, "miss"), op(0, "get", 4, 5, "hit", reads("a1")),
		op(0, "get", 4, 5, "hit", reads("a2"))} {
		asked := []*operation{op(0, "set", 0, 1, "stored", value("a1")), op(1, "set", 2, 0, "unknown", value("a2")), read}
		if result := full.check(asked); result != porcupine.Ok {
			t.Errorf("a set without an answer, then %s: %v", read.outcome, result)
		}
	}
	// Whoever set it must not read what was there before.
	old := []*operation{op(0, "set", 0, 1, "stored", value("a1")), op(0, "set", 2, 3, "no_memory", value("a2")),
		op(0, "get", 4, 5, "hit", reads("a1"))}
	if result := full.check(old); result != porcupine.Illegal {
		t.Errorf("set: %v", result)
	}
	// A meta set removes it in every mode.
	old[1] = op(0, "add", 2, 3, "no_memory_gone", value("a2"))
	if result := full.check(old); result != porcupine.Illegal {
		t.Errorf("meta add: %v", result)
	}
	// Absence is said of keys that are absent.
	old[1] = op(0, "append", 2, 3, "not_stored", value("a2"))
	if result := full.check(old); result != porcupine.Illegal {
		t.Errorf("append: %v", result)
	}
}

func TestTheShortestPartIsShown(t *testing.T) {
	var all []*operation
	for i := int64(0); i < 50; i++ {
		v := "a" + string(rune('A'+i))
		all = append(all, op(0, "set", 4*i, 4*i+1, "stored", value(v)), op(1, "get", 4*i+2, 4*i+3, "hit", reads(v)))
	}
	all = append(all, op(1, "get", 300, 301, "miss"), op(1, "set", 400, 401, "stored", value("a1")))
	part, _, end := rules{allAnswers: true}.shorten(all)
	if len(part) != 2 || part[0] != all[98] || part[1] != all[100] || end != 301_000 {
		t.Errorf("shown until %d:\n%s", end, table(part))
	}
}

func TestOneIdWithTwoValues(t *testing.T) {
	two := []*operation{op(0, "get", 0, 1, "hit", reads("a1"), cas(5)), op(0, "get", 9, 10, "hit", reads("a2"), cas(5))}
	if _, part := obvious(two); len(part) != 2 {
		t.Error("not seen")
	}
	if _, part := obvious([]*operation{two[0], two[0]}); part != nil {
		t.Error("seen where there is one value")
	}
	exchange := op(0, "exchange", 0, 1, "hit", value("a2"), reads("a1"), cas(5))
	if _, part := obvious([]*operation{exchange, two[1]}); part != nil {
		t.Error("an exchange's id was taken for its old value's")
	}
	if _, part := obvious([]*operation{exchange, two[0]}); len(part) != 2 {
		t.Error("an exchange's id was not seen")
	}
	if changesNothing(exchange) || !changesNothing(two[0]) {
		t.Error("an exchange changes something, a get does not")
	}
	if _, part := obvious([]*operation{op(0, "get", 0, 1, "hit", reads("!a1!damaged"))}); len(part) != 1 {
		t.Error("damaged bytes were not seen")
	}
}

func write(t *testing.T, lines ...string) string {
	path := filepath.Join(t.TempDir(), "history")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFiles(t *testing.T) {
	head, tail := `{"name":"x","seed":3,"clients":2,"may_vanish":false}`, `{"operations":2}`
	set := "0 0 set k 1000 2000 stored a1 0 0 0 - 9 0 -2 -2"
	for _, f := range []struct {
		code  int
		lines []string
	}{
		{0, []string{head, set, "1 0 get k 3000 4000 hit - 0 0 0 a1 9 0 -2 -2", tail}},
		{1, []string{head, set, "1 0 get k 3000 4000 miss - 0 0 0 - 0 0 -2 -2", tail}},
		{1, []string{head, set, "1 0 flush * 3000 4000 flushed - 0 0 0 - 0 0 -2 -2", "0 1 get k 5000 6000 hit - 0 0 0 a1 9 0 -2 -2", tail}},
		// A flush of some keys alone, as seeds have in a common history.
		{1, []string{head, set, "1 0 flush k* 3000 4000 flushed - 0 0 0 - 0 0 -2 -2", "0 1 get k 5000 6000 hit - 0 0 0 a1 9 0 -2 -2", tail}},
		{0, []string{head, set, "1 0 flush l* 3000 4000 flushed - 0 0 0 - 0 0 -2 -2", "0 1 get k 5000 6000 hit - 0 0 0 a1 9 0 -2 -2", tail}},
		{2, []string{head, set}},
		{2, []string{head, "0 0 set k 1000 2000 stored a1", tail}},
		{2, []string{head, "0 0 set k 3000 2000 stored a1 0 0 0 - 9 0 -2 -2", tail}},
		{2, []string{"no history"}},
	} {
		if code := checkFile(write(t, f.lines...), t.TempDir()); code != f.code {
			t.Errorf("%d, not %d: %v", code, f.code, f.lines)
		}
	}
	if code := checkFile(filepath.Join(t.TempDir(), "none"), "."); code != 2 {
		t.Errorf("%d without a file", code)
	}
}

func TestThePictureIsDrawn(t *testing.T) {
	folder := t.TempDir()
	path := write(t, `{"name":"x","seed":3,"clients":2,"may_vanish":false}`, "0 0 set k 1000 2000 stored a1 0 0 0 - 9 0 -2 -2",
		"1 0 get k 3000 4000 miss - 0 0 0 - 0 0 -2 -2", "{}")
	if code := checkFile(path, folder); code != 1 {
		t.Fatalf("%d", code)
	}
	page, err := os.ReadFile(filepath.Join(folder, "x.html"))
	if err != nil || !strings.Contains(string(page), "set a1") {
		t.Errorf("no picture of it: %v", err)
	}
}
