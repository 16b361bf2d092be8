package main

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const keyTimeout = 60 * time.Second

// check asks Porcupine about the history of one key.
func (r rules) check(operations []*operation) porcupine.CheckResult {
	result, _ := r.checkVerbose(operations, false)
	return result
}

func (r rules) checkVerbose(operations []*operation, verbose bool) (porcupine.CheckResult, porcupine.LinearizationInfo) {
	model := r.modelOf(operations)
	all := make([]porcupine.Operation, len(operations))
	clients := map[uint64]int{}
	for i, o := range operations {
		// In the picture operations that overlap have lines of their own.
		client, known := clients[o.process*64+uint64(o.index)]
		if !known {
			client = len(clients)
			clients[o.process*64+uint64(o.index)] = client
		}
		all[i] = porcupine.Operation{ClientId: client, Input: o, Call: o.called, Return: o.returned}
	}
	if verbose {
		return porcupine.CheckOperationsVerbose(model, all, keyTimeout)
	}
	return porcupine.CheckOperationsTimeout(model, all, keyTimeout), porcupine.LinearizationInfo{}
}

// modelOf orders the operations of a key, or of a group.
func (r rules) modelOf(operations []*operation) porcupine.Model {
	if len(operations) != 0 && operations[0].grouped {
		return r.groupModel(group(operations))
	}
	order(operations)
	return r.model()
}

// obvious finds what needs no search: an answer with bytes that nobody wrote, two that show one CAS id with two
// values, or keys that a scan shows in the wrong place.
func obvious(operations []*operation) (why string, part []*operation) {
	shown := operations
	for _, o := range operations {
		if o.scan == nil {
			continue
		}
		shown = append(shown[:len(shown):len(shown)], o.scan.items...)
		if why := o.scan.disorder(); why != "" {
			return why, []*operation{o}
		}
	}
	for _, o := range shown {
		if strings.HasPrefix(o.read, "!") {
			return "bytes that nobody wrote (! and where they are not what their beginning says):", []*operation{o}
		}
	}
	if two := sameCas(shown); two != nil {
		return "one CAS id with two values:", two
	}
	return "", nil
}

func sameCas(operations []*operation) []*operation {
	type id struct {
		key string
		cas uint64
	}
	first := map[id]*operation{}
	shown := func(o *operation) string {
		if o.outcome == "hit" && o.kind != "exchange" {
			return o.read
		}
		return o.value
	}
	for _, o := range operations {
		if o.cas == 0 || o.outcome != "hit" && (o.outcome != "stored" || o.kind == "append" || o.kind == "prepend") {
			continue
		}
		if f := first[id{o.key, o.cas}]; f == nil {
			first[id{o.key, o.cas}] = o
		} else if shown(f) != shown(o) {
			return []*operation{f, o}
		}
	}
	return nil
}

// prefix is the history up to `end`: what was answered later has no answer in it.
func prefix(operations []*operation, end int64) []*operation {
	var part []*operation
	for _, o := range operations {
		if o.called > end {
			continue
		}
		if o.returned > end {
			if o.kind == "get" || o.kind == "scan" {
				continue
			}
			pending := *o
			pending.outcome, pending.returned, pending.read, pending.cas = "unknown", never, "", 0
			o = &pending
		}
		part = append(part, o)
	}
	return part
}

// changesNothing: a history that has an order has one without this operation, too.
func changesNothing(o *operation) bool {
	if o.kind == "exchange" {
		return false
	}
	switch o.outcome {
	case "hit", "miss", "not_stored", "exists", "not_a_number", "scanned", "cut":
		return true
	}
	return false
}

// shorten returns the offending part of a history that has no order, and what rules it breaks. end: when the last
// answer of the shortest prefix came that has none.
func (r rules) shorten(operations []*operation) (part []*operation, under rules, end int64) {
	illegal := func(under rules, part []*operation) bool { return under.check(part) == porcupine.Illegal }
	var ends []int64
	for _, o := range operations {
		if o.returned != never {
			ends = append(ends, o.returned)
		}
	}
	sort.Slice(ends, func(i, j int) bool { return ends[i] < ends[j] })
	at := sort.Search(len(ends)-1, func(i int) bool { return illegal(r, prefix(operations, ends[i])) })
	end = ends[at]
	part, under = prefix(operations, end), r

	// Without the answers that are left out below, nobody knows which CAS ids were shown.
	under.allAnswers = false
	if !illegal(under, part) {
		return part, r, end
	}
	part = under.leaveOut(part)
	part, under = under.cutFront(part)
	return under.leaveOut(part), under, end
}

// leaveOut drops what changes nothing and is not needed: many at once, then fewer.
func (r rules) leaveOut(part []*operation) []*operation {
	for size := (len(part) + 1) / 2; size != 0; size /= 2 {
		for i := 0; i < len(part); {
			end := i + size
			if end > len(part) {
				end = len(part)
			}
			without := append([]*operation(nil), part[:i]...)
			for _, o := range part[i:end] {
				if !changesNothing(o) {
					without = append(without, o)
				}
			}
			kept := len(without) - i
			without = append(without, part[end:]...)
			if len(without) < len(part) && r.check(without) == porcupine.Illegal {
				part = without
				i += kept
			} else {
				i = end
			}
		}
	}
	return part
}

// cutFront begins as late as possible at a moment when nobody asks for anything, with any state of the key.
func (r rules) cutFront(part []*operation) ([]*operation, rules) {
	sort.SliceStable(part, func(i, j int) bool { return part[i].called < part[j].called })
	free := r
	free.initial = state{is: unknown}
	for _, o := range part {
		if o.ttl != 0 {
			free.initial.from = 1
		}
	}
	var quiet []int
	last := int64(0)
	for i, o := range part {
		if i != 0 && o.called > last {
			quiet = append(quiet, i)
		}
		if o.returned > last {
			last = o.returned
		}
	}
	for i := len(quiet) - 1; i >= 0; i-- {
		if rest := part[quiet[i]:]; free.check(rest) == porcupine.Illegal {
			return rest, free
		}
	}
	return part, r
}

// table shows operations with their times.
func table(part []*operation) string {
	sort.SliceStable(part, func(i, j int) bool { return part[i].called < part[j].called })
	text := ""
	for _, o := range part {
		end := "no answer"
		if o.returned != never {
			end = fmt.Sprintf("%.1f", float64(o.returned-part[0].called)/1000)
		}
		text += fmt.Sprintf("  %10.1f to %10s us  client %-3d %s\n", float64(o.called-part[0].called)/1000, end, o.process,
			o.describe())
	}
	return text
}
