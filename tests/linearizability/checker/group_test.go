package main

import (
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
)

// on is an operation of a group's key by hand, scans one of the group; items: "<key>=<value>=<cas>=<flags>;...|<last>".
func on(key string, o *operation) *operation {
	o.key, o.grouped = "g."+key, true
	return o
}

func scans(t *testing.T, process uint64, called, returned int64, keys, items string) *operation {
	o := op(process, "scan", called, returned, "scanned", value(keys), reads(items))
	if strings.Contains(items, "|") {
		o.outcome = "cut"
	}
	o.key, o.grouped = "g.", true
	if err := parseScan(o); err != nil {
		t.Fatal(err)
	}
	return o
}

const whole, downwards = "up/g.0/g.:", "down/g.0/g.:"

func sets(key, v string, process uint64, called, returned int64) *operation {
	return on(key, op(process, "set", called, returned, "stored", value(v)))
}

func removes(key string, process uint64, called, returned int64) *operation {
	return on(key, op(process, "delete", called, returned, "removed"))
}

// What is recorded before the scan, the scan's range and items, and whether there is an order. Scans are asked for at 100
// and answered at 110.
func TestScans(t *testing.T) {
	begin := func(more ...*operation) []*operation {
		return append([]*operation{sets("1", "a1", 0, 0, 1), sets("2", "a2", 0, 2, 3)}, more...)
	}
	// A key's item goes to another name: first there, then no more here.
	moved := begin(sets("3", "a3", 0, 101, 102), removes("1", 0, 103, 104))
	flushed := begin(&operation{process: 1, kind: "flush", key: "g.", grouped: true, called: 101_000, returned: 102_000,
		outcome: "flushed"})
	beside := begin(sets("1", "a4", 1, 90, 105), sets("2", "a5", 2, 90, 105))
	for _, e := range []struct {
		name        string
		before      []*operation
		keys, items string
		is          porcupine.CheckResult
	}{
		{"all", begin(), whole, "g.1=a1=0=0;g.2=a2=0=0", porcupine.Ok},
		{"nothing", nil, whole, "", porcupine.Ok},
		{"downwards", begin(), downwards, "g.2=a2=0=0;g.1=a1=0=0", porcupine.Ok},
		{"a part", begin(), "up/g.2/g.:", "g.2=a2=0=0", porcupine.Ok},
		{"one is missing", begin(), whole, "g.2=a2=0=0", porcupine.Illegal},
		{"the last is missing", begin(), whole, "g.1=a1=0=0", porcupine.Illegal},
		{"cut before it", begin(), whole, "g.1=a1=0=0|g.1", porcupine.Ok},
		{"cut behind it", begin(), whole, "g.1=a1=0=0|g.2", porcupine.Illegal},
		{"cut, without an item", begin(), whole, "|g.0b7", porcupine.Ok},
		{"cut, and one is missing", begin(), whole, "g.2=a2=0=0|g.2", porcupine.Illegal},
		{"cut on its way down", begin(), downwards, "g.2=a2=0=0|g.2", porcupine.Ok},
		{"a stale value", begin(sets("1", "a4", 0, 4, 5)), whole, "g.1=a1=0=0;g.2=a2=0=0", porcupine.Illegal},
		{"flags of another write", begin(), whole, "g.1=a1=0=7;g.2=a2=0=0", porcupine.Illegal},
		{"a value from nowhere", begin(), whole, "g.1=a1=0=0;g.2=a2=0=0;g.3=a3=0=0", porcupine.Illegal},
		{"a ghost", begin(removes("1", 0, 4, 5)), whole, "g.1=a1=0=0;g.2=a2=0=0", porcupine.Illegal},
		{"before a move", moved, whole, "g.1=a1=0=0;g.2=a2=0=0", porcupine.Ok},
		{"amid a move", moved, whole, "g.1=a1=0=0;g.2=a2=0=0;g.3=a3=0=0", porcupine.Ok},
		{"after a move", moved, whole, "g.2=a2=0=0;g.3=a3=0=0", porcupine.Ok},
		{"a move half seen", moved, whole, "g.2=a2=0=0", porcupine.Illegal},
		{"before a flush", flushed, whole, "g.1=a1=0=0;g.2=a2=0=0", porcupine.Ok},
		{"after a flush", flushed, whole, "", porcupine.Ok},
		{"a flush half seen", flushed, whole, "g.2=a2=0=0", porcupine.Illegal},
		{"one of two that are beside it", beside, whole, "g.1=a4=0=0;g.2=a2=0=0", porcupine.Ok},
		{"the other", beside, whole, "g.1=a1=0=0;g.2=a5=0=0", porcupine.Ok},
	} {
		all := append(e.before, scans(t, 9, 100, 110, e.keys, e.items))
		if result := (rules{allAnswers: true}).check(all); result != e.is {
			t.Errorf("%s: %v", e.name, result)
		}
	}
	missing := append(begin(), scans(t, 9, 100, 110, whole, "g.2=a2=0=0"))
	if result := (rules{mayVanish: true}).check(missing); result != porcupine.Ok {
		t.Errorf("evicted: %v", result)
	}
	missing = append(missing, scans(t, 9, 200, 210, whole, "g.1=a1=0=0;g.2=a2=0=0"))
	if result := (rules{mayVanish: true}).check(missing); result != porcupine.Illegal {
		t.Errorf("evicted, and back: %v", result)
	}
}

// Two scans that see two concurrent writes in different orders.
func TestTwoScansSeeOneOrder(t *testing.T) {
	all := []*operation{sets("1", "a1", 0, 0, 50), sets("2", "a2", 1, 0, 50), scans(t, 2, 10, 40, whole, "g.1=a1=0=0"),
		scans(t, 3, 10, 40, whole, "g.1=a1=0=0")}
	if result := (rules{}).check(all); result != porcupine.Ok {
		t.Errorf("the same: %v", result)
	}
	all[3] = scans(t, 3, 10, 40, whole, "g.2=a2=0=0")
	if result := (rules{}).check(all); result != porcupine.Illegal {
		t.Errorf("two orders: %v", result)
	}
}

func TestAScanKeepsItsPlaceInABurst(t *testing.T) {
	together := func(items string) []*operation {
		return []*operation{sets("1", "a1", 0, 0, 9), sets("2", "a2", 0, 0, 9), scans(t, 0, 0, 9, whole, items),
			sets("3", "a3", 0, 0, 9), removes("1", 0, 0, 9), scans(t, 0, 0, 9, whole, "g.2=a2=0=0;g.3=a3=0=0")}
	}
	for items, is := range map[string]porcupine.CheckResult{
		"g.1=a1=0=0;g.2=a2=0=0":            porcupine.Ok,
		"g.1=a1=0=0":                       porcupine.Illegal, // not what was asked for before it
		"g.1=a1=0=0;g.2=a2=0=0;g.3=a3=0=0": porcupine.Illegal, // what was asked for behind it
		"g.2=a2=0=0":                       porcupine.Illegal,
	} {
		if result := (rules{}).check(together(items)); result != is {
			t.Errorf("%s: %v", items, result)
		}
	}
	// Other keys of a burst keep no order among themselves.
	all := []*operation{sets("1", "a1", 0, 0, 50), sets("2", "a2", 0, 0, 50), scans(t, 3, 10, 40, whole, "g.2=a2=0=0")}
	if result := (rules{}).check(all); result != porcupine.Ok {
		t.Errorf("the second one first: %v", result)
	}
}

func TestKeysInDisorder(t *testing.T) {
	for _, e := range []struct {
		keys, items, why string
	}{
		{whole, "g.1=a1=0=0;g.2=a2=0=0", ""},
		{downwards, "g.2=a2=0=0;g.1=a1=0=0", ""},
		{whole, "g.2=a2=0=0;g.1=a1=0=0", "not in order"},
		{downwards, "g.1=a1=0=0;g.2=a2=0=0", "not in order"},
		{whole, "g.1=a1=0=0;g.1=a1=0=0", "not in order"},
		{"up/g.2/g.:", "g.1=a1=0=0", "outside"},
		{"up/g.0/g.2", "g.2=a1=0=0", "outside"},
		{whole, "g.1=a1=0=0;g.2=a2=0=0|g.1", "outside"},
		{whole, "g.1=!behind-g.3b1.2=0=0", "nobody wrote"},
	} {
		why, part := obvious([]*operation{scans(t, 0, 0, 1, e.keys, e.items)})
		if (why == "") != (e.why == "") || !strings.Contains(why, e.why) || (part == nil) != (e.why == "") {
			t.Errorf("%s %s: %s", e.keys, e.items, why)
		}
	}
	two := []*operation{scans(t, 0, 0, 1, whole, "g.1=a1=5=0"), on("1", op(0, "get", 2, 3, "hit", reads("a2"), cas(5)))}
	if why, part := obvious(two); len(part) != 2 {
		t.Errorf("one id with two values: %s", why)
	}
}

func TestFilesWithScans(t *testing.T) {
	head, tail := `{"name":"x","seed":3,"clients":2,"may_vanish":false}`, `{"operations":2}`
	scan := func(times, outcome, items string) string {
		return "1 " + times + " " + outcome + " up/h1.0/h1.: 0 0 0 " + items + " 0 0 -2 -2"
	}
	set := func(key string) string { return "0 0 set " + key + " 1000 2000 stored a1 0 0 0 - 9 0 -2 -2" }
	flush := "2 0 flush * 3000 3100 flushed - 0 0 0 - 0 0 -2 -2"
	for i, f := range []struct {
		code  int
		lines []string
	}{
		{0, []string{head, set("h1.3"), scan("0 scan h1. 3000 4000", "scanned", "h1.3=a1=9=0"), tail}},
		{1, []string{head, set("h1.3"), scan("0 scan h1. 3000 4000", "scanned", "-"), tail}},
		{0, []string{head, set("h1.3"), scan("0 scan h1. 3000 4000", "cut", "|h1.2"), tail}},
		{1, []string{head, set("h1.3"), scan("0 scan h1. 3000 4000", "cut", "|h1.3"), tail}},
		{0, []string{head, set("s7.h1.3"), scan("0 scan s7.h1. 3000 4000", "scanned", "h1.3=a1=9=0"), tail}},
		{1, []string{head, set("s7.h1.3"), scan("0 scan s7.h1. 3000 4000", "scanned", "-"), tail}},
		// Keys that nobody scans are looked at as ever.
		{1, []string{head, set("h1.3"), scan("0 scan h1. 3000 4000", "scanned", "h1.3=a1=9=0"),
			"1 1 get h2.3 3000 4000 hit - 0 0 0 a1 9 0 -2 -2", tail}},
		{1, []string{head, set("h1.3"), flush, scan("0 scan h1. 5000 6000", "scanned", "h1.3=a1=9=0"), tail}},
		{0, []string{head, set("h1.3"), flush, scan("0 scan h1. 5000 6000", "scanned", "-"), tail}},
		{0, []string{head, set("h1.3"), scan("0 scan h1. 3000 4000", "unknown", "-"), tail}},
		{2, []string{head, set("h1.3"), scan("0 scan h1. 3000 4000", "scanned", "h1.3=a1"), tail}},
		{2, []string{head, set("h1.0"), set("h1.1"), set("h1.2"), set("h1.3"), set("h1.4"), set("h1.5"), set("h1.6"),
			set("h1.7"), set("h1.8"), scan("0 scan h1. 3000 4000", "scanned", "-"), tail}},
	} {
		if code := checkFile(write(t, f.lines...), t.TempDir()); code != f.code {
			t.Errorf("%d: %d, not %d: %v", i, code, f.code, f.lines)
		}
	}
}

func TestTheShortestPartOfAGroup(t *testing.T) {
	var all []*operation
	for i := int64(0); i < 40; i++ {
		v := "a" + string(rune('A'+i))
		all = append(all, sets("1", v, 0, 4*i, 4*i+1), scans(t, 1, 4*i+2, 4*i+3, whole, "g.1="+v+"=0=0"))
	}
	all = append(all, scans(t, 1, 300, 301, whole, ""), sets("1", "a1", 1, 400, 401))
	part, _, end := rules{allAnswers: true}.shorten(all)
	if len(part) != 2 || part[0] != all[78] || part[1] != all[80] || end != 301_000 {
		t.Errorf("shown until %d:\n%s", end, table(part))
	}
}

func TestFlushesOfWhichNobodyCouldTell(t *testing.T) {
	flush := func(called, returned int64) *operation { return op(7, "flush", called, returned, "flushed") }
	operations := []*operation{op(0, "set", 10, 20, "stored", value("a1")), op(0, "get", 40, 50, "miss"),
		op(0, "set", 60, 0, "unknown", value("a2"))}
	flushes := []*operation{flush(1, 2), flush(3, 15), flush(21, 22), flush(25, 30), flush(35, 45), flush(52, 53),
		flush(70, 71), flush(80, 81)}
	for _, f := range flushes {
		f.key = "*"
	}
	some := thatMatter(flushes, "k", operations)
	// Not the one before everything, nor the second one of a gap. What has no answer may be done between the last two.
	want := []int{1, 2, 4, 5, 6, 7}
	if len(some) != len(want) {
		t.Fatalf("%d of them", len(some))
	}
	for i, w := range want {
		if some[i] != flushes[w] {
			t.Errorf("%d: not number %d", i, w)
		}
	}
}
