package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
)

// never is when an operation returns whose connection ended before its answer.
const never = math.MaxInt64

// operation is a line of a history: what a client asked for, when, and what it was told. The recorder writes it
// (recorder/history.hpp).
type operation struct {
	process, burst   uint64
	kind             string
	key              string
	called, returned int64
	outcome          string
	value            string // to store
	delta            uint64
	expected         uint64 // cas: the id from an earlier answer; exchange, take: the old item's
	ttl              int64
	read             string
	cas              uint64 // of the answer; 0: it has none
	flags            int64  // to store
	readFlags, left  int64  // what the answer shows beside the value: flags, and seconds to live; or notShown
	end              int64  // when it was answered, also once a prefix of the history has made it unknown

	// Operations on one key that one process asked for together take effect in their order: this is number `index` of
	// `size`, and no other group with this slot overlaps it in time. size 0: nothing to keep.
	slot, index, size int

	number  int  // in its history
	grouped bool // it is one of a group's (group.go)
	place
	scan *scanned // of a scan
}

type header struct {
	Name      string `json:"name"`
	Seed      uint64 `json:"seed"`
	Clients   int    `json:"clients"`
	MayVanish bool   `json:"may_vanish"`
	MayRefuse bool   `json:"may_refuse"`
}

type history struct {
	header
	operations int
	keys       map[string][]*operation // of one key each
	groups     map[string][]*operation // of all keys that begin with a name, and scans of them
	ends       []int64                 // when each operation was answered, sorted
}

func readHistory(path string) (*history, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	h := &history{keys: map[string][]*operation{}, groups: map[string][]*operation{}}
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 1<<20), 1<<26)
	if !lines.Scan() {
		return nil, fmt.Errorf("%s: empty", path)
	}
	if err := json.Unmarshal(lines.Bytes(), &h.header); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var flushes []*operation
	complete := false
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "{") {
			complete = true
			break
		}
		o, err := parseOperation(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %s", path, err, line)
		}
		h.operations++
		o.number = h.operations
		h.ends = append(h.ends, o.end)
		switch {
		case o.outcome == "unknown" && (o.kind == "get" || o.kind == "scan"):
		case o.kind == "scan":
			if err := parseScan(o); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			o.grouped = true
			h.groups[o.key] = append(h.groups[o.key], o)
		case o.kind == "flush":
			flushes = append(flushes, o)
		default:
			h.keys[o.key] = append(h.keys[o.key], o)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if !complete {
		return nil, fmt.Errorf("%s: its end is missing", path)
	}
	sort.Slice(flushes, func(i, j int) bool { return flushes[i].called < flushes[j].called })
	names := map[string]map[string]bool{}
	for key, operations := range h.keys {
		if name := groupOf(key); h.groups[name] != nil {
			for _, o := range operations {
				o.grouped = true
			}
			h.groups[name] = append(h.groups[name], operations...)
			if names[name] == nil {
				names[name] = map[string]bool{}
			}
			if names[name][key] = true; len(names[name]) > groupKeys {
				return nil, fmt.Errorf("%s: more than %d keys of %s", path, groupKeys, name)
			}
		}
	}
	for _, group := range h.groups {
		sort.Slice(group, func(i, j int) bool { return group[i].number < group[j].number })
	}
	for _, all := range []map[string][]*operation{h.keys, h.groups} {
		for key := range all {
			for _, o := range thatMatter(flushes, key, all[key]) {
				own := *o
				own.key, own.grouped = key, strings.HasSuffix(key, ".")
				all[key] = append(all[key], &own)
			}
		}
	}
	sort.Slice(h.ends, func(i, j int) bool { return h.ends[i] < h.ends[j] })
	return h, nil
}

// thatMatter leaves out flushes of which nobody could tell: of those between two operations one is enough.
func thatMatter(flushes []*operation, key string, operations []*operation) (some []*operation) {
	byCall := append([]*operation(nil), operations...)
	sort.SliceStable(byCall, func(i, j int) bool { return byCall[i].called < byCall[j].called })
	ends := make([]int64, len(byCall)+1) // ends[i]: when the first i operations have all returned
	for i, o := range byCall {
		ends[i+1] = ends[i]
		if o.returned > ends[i] {
			ends[i+1] = o.returned
		}
	}
	last := 0 // the gap of the last flush that had one; nothing is there before the first operation
	for _, o := range flushes {
		if !strings.HasPrefix(key, strings.TrimSuffix(o.key, "*")) { // "*": all keys, "s3.*": those of seed 3
			continue
		}
		gap := sort.Search(len(byCall), func(i int) bool { return byCall[i].called > o.called })
		if ends[gap] < o.called && (gap == len(byCall) || byCall[gap].called > o.returned) {
			if gap == last || gap == len(byCall) {
				continue
			}
			last = gap
		}
		some = append(some, o)
	}
	return some
}

func parseOperation(line string) (*operation, error) {
	f := strings.Split(line, " ")
	if len(f) != 16 {
		return nil, fmt.Errorf("%d fields, not 16", len(f))
	}
	var wrong error
	number := func(text string) uint64 {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			wrong = err
		}
		return n
	}
	signed := func(text string) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			wrong = err
		}
		return n
	}
	text := func(text string) string {
		if text == "-" {
			return ""
		}
		return text
	}
	o := &operation{
		process: number(f[0]), burst: number(f[1]), kind: f[2], key: f[3],
		called: int64(number(f[4])), returned: int64(number(f[5])), outcome: f[6], value: text(f[7]),
		delta: number(f[8]), expected: number(f[9]), ttl: int64(number(f[10])), read: text(f[11]), cas: number(f[12]),
		flags: signed(f[13]), readFlags: signed(f[14]), left: signed(f[15]),
	}
	if o.outcome == "unknown" {
		o.returned = never
	}
	o.end = o.returned
	if o.returned < o.called {
		return nil, fmt.Errorf("answered before it was asked")
	}
	return o, wrong
}

// before counts the operations of the whole history that were answered by then.
func (h *history) before(end int64) int {
	return sort.Search(len(h.ends), func(i int) bool { return h.ends[i] > end })
}

// expired counts misses of items that were stored or touched last with a time to live.
func (h *history) expired() int {
	count := 0
	for _, operations := range h.keys {
		sort.SliceStable(operations, func(i, j int) bool { return operations[i].called < operations[j].called })
		var last *operation
		for _, o := range operations {
			switch {
			case o.outcome == "stored" && o.kind != "append" && o.kind != "prepend", o.outcome == "touched",
				o.outcome == "hit" && o.kind == "exchange", o.outcome == "removed", o.outcome == "unknown",
				o.outcome == "flushed":
				last = o
			case o.outcome == "miss" && last != nil && last.ttl != 0 && last.outcome != "unknown" &&
				last.returned < o.called && last.called+(last.ttl-1)*second-clockLag <= o.returned:
				count++
			}
		}
	}
	return count
}

// overlapping counts operations that begin while another process has one on the same key.
func (h *history) overlapping() int {
	count := 0
	for _, operations := range h.keys {
		byCall := append([]*operation(nil), operations...)
		sort.SliceStable(byCall, func(i, j int) bool { return byCall[i].called < byCall[j].called })
		last := map[uint64]int64{}
		for _, o := range byCall {
			for process, end := range last {
				if process != o.process && end > o.called {
					count++
					break
				}
			}
			if o.returned > last[o.process] {
				last[o.process] = o.returned
			}
		}
	}
	return count
}

// order notes which operations of one key keep an order among themselves.
func order(operations []*operation) {
	for _, members := range bursts(operations) {
		for i, o := range members {
			o.index, o.size = i, len(members)
		}
	}
}

// bursts returns the operations that one process asked for together, two at least, and gives them a slot. They have no
// order yet.
func bursts(operations []*operation) (all [][]*operation) {
	type group struct{ process, burst uint64 }
	groups := map[group][]*operation{}
	var names []group
	for _, o := range operations {
		o.slot, o.index, o.size = 0, 0, 0
		if o.returned == never {
			continue // it may have done nothing, which is as if it came last
		}
		g := group{o.process, o.burst}
		if groups[g] == nil {
			names = append(names, g)
		}
		groups[g] = append(groups[g], o)
	}
	sort.SliceStable(names, func(i, j int) bool { return groups[names[i]][0].called < groups[names[j]][0].called })
	var busy [slots]int64
	for slot := range busy {
		busy[slot] = -1
	}
	for _, g := range names {
		members := groups[g]
		if len(members) < 2 {
			continue
		}
		end := int64(0)
		for _, o := range members {
			if o.returned > end {
				end = o.returned
			}
		}
		for slot := range busy {
			if busy[slot] < members[0].called {
				busy[slot] = end
				for _, o := range members {
					o.slot = slot
				}
				all = append(all, members)
				break
			}
		}
	}
	return all
}
