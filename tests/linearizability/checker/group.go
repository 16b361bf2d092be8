package main

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// A group is the keys that are scanned together. Its history is checked as a whole: a scan shows all of them at one
// moment.

const groupKeys = 8

// scanned is the range of a scan, and what its answer shows of it.
type scanned struct {
	begin, end string // inclusive, exclusive
	down       bool
	cut        bool
	last       string       // if it was cut: up to and with this key
	items      []*operation // reads of what was shown, in the answer's order
}

// groupState is that of all keys of a group, in their order.
type groupState struct {
	keys [groupKeys]state
	done [slots]uint8 // how many operations of a burst
}

// place of an operation of a group among the others.
type place struct {
	at int // its key
	// It is one of `total` of its process's burst, and comes when the first `after` of them are done. A scan takes
	// effect behind all that was asked for before it, and before all that follows.
	after, total int
}

func groupOf(key string) string { return key[:strings.LastIndexByte(key, '.')+1] }

// parseScan reads what the recorder writes of a scan (recorder/scan_read.hpp). The seed of a schedule stands before the
// group's name, but not in its keys.
func parseScan(o *operation) error {
	words := strings.Split(o.value, "/")
	if len(words) != 3 {
		return fmt.Errorf("no range: %s", o.value)
	}
	seed := ""
	if i := strings.LastIndexByte(strings.TrimSuffix(o.key, "."), '.'); i >= 0 {
		seed = o.key[:i+1]
	}
	s := &scanned{down: words[0] == "down", begin: seed + words[1], end: seed + words[2], cut: o.outcome == "cut"}
	items, last, _ := strings.Cut(o.read, "|")
	if s.cut {
		s.last = seed + last
	}
	o.scan = s
	if items == "" {
		return nil
	}
	for _, text := range strings.Split(items, ";") {
		f := strings.Split(text, "=")
		if len(f) != 4 {
			return fmt.Errorf("no item of a scan: %s", text)
		}
		cas, casError := strconv.ParseUint(f[2], 10, 64)
		flags, flagsError := strconv.ParseInt(f[3], 10, 64)
		if casError != nil || flagsError != nil {
			return fmt.Errorf("no item of a scan: %s", text)
		}
		s.items = append(s.items, &operation{process: o.process, kind: "scan", key: seed + f[0], grouped: true,
			called: o.called, returned: o.returned, outcome: "hit", read: f[1], cas: cas, readFlags: flags, left: notShown})
	}
	return nil
}

// covers says whether the answer tells of this key.
func (s *scanned) covers(key string) bool {
	if key < s.begin || key >= s.end {
		return false
	}
	return !s.cut || s.down && key >= s.last || !s.down && key <= s.last
}

// disorder returns what is wrong with a scan's keys whatever the store holds.
func (s *scanned) disorder() string {
	for i, item := range s.items {
		if !s.covers(item.key) {
			return "a key outside of the range:"
		}
		if i != 0 && (s.items[i-1].key == item.key || s.items[i-1].key < item.key == s.down) {
			return "keys of one answer that are not in order:"
		}
	}
	return ""
}

// group gives the operations of a group their places, and returns its keys.
func group(operations []*operation) []string {
	names := map[string]bool{}
	for _, o := range operations {
		if o.scan == nil && o.kind != "flush" {
			names[o.key] = true
		}
	}
	for _, o := range operations {
		for i := 0; o.scan != nil && i < len(o.scan.items) && len(names) < groupKeys; i++ {
			names[o.scan.items[i].key] = true
		}
	}
	var keys []string
	for key := range names {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for _, o := range operations {
		o.place = place{at: sort.SearchStrings(keys, o.key)}
	}
	for _, members := range bursts(operations) {
		sizes, behind := map[string]int{}, 0
		for i, o := range members {
			o.index = sizes[o.key]
			sizes[o.key]++
			if o.scan != nil {
				o.after, behind = i, i+1
			} else {
				o.after = behind
			}
		}
		for _, o := range members {
			o.size, o.total = sizes[o.key], len(members)
		}
	}
	return keys
}

// groupStep is step() for an operation of a group.
func (r rules) groupStep(s *groupState, keys []string, o *operation) bool {
	if o.total > 1 {
		done := &s.done[o.slot]
		if int(*done) < o.after || o.scan != nil && int(*done) != o.after {
			return false
		}
		*done = uint8((int(*done) + 1) % o.total)
	}
	switch {
	case o.scan != nil:
		return r.see(s, keys, o)
	case o.kind == "flush":
		for i := range keys {
			s.keys[i].vanish()
		}
		return true
	}
	return r.step(&s.keys[o.at], o)
}

// see says whether the group can look as a scan shows it: each key of its range that is not in the answer is absent.
func (r rules) see(s *groupState, keys []string, o *operation) bool {
	next := map[string]*operation{}
	for _, item := range o.scan.items {
		next[item.key] = item
	}
	for i, key := range keys {
		if !o.scan.covers(key) {
			continue
		}
		if item := next[key]; item == nil {
			if !r.leaveAbsent(&s.keys[i], o) {
				return false
			}
		} else if !seePresent(&s.keys[i], item) || !read(&s.keys[i], item) {
			return false
		}
	}
	return true
}

func (r rules) groupModel(keys []string) porcupine.Model {
	var initial groupState
	for i := range keys {
		initial.keys[i] = r.initial
	}
	return porcupine.Model{
		Init: func() interface{} { return initial },
		Step: func(before, input, _ interface{}) (bool, interface{}) {
			s := before.(groupState)
			ok := r.groupStep(&s, keys, input.(*operation))
			return ok, s
		},
		DescribeOperation: func(input, _ interface{}) string { return input.(*operation).describe() },
		DescribeState: func(s interface{}) string {
			text := ""
			for i, key := range keys {
				text += fmt.Sprintf("%s: %s\n", key, s.(groupState).keys[i].describe())
			}
			return text
		},
	}
}
